// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/routes.h"

#include "routeopd/serve/json_text.h"

namespace routeopd::serve {

std::vector<Route> standard_routes() {
  return {
      {"POST", "/v1/completions", answer_completions},
      {"POST", "/v1/chat/completions", answer_chat},
      {"GET", "/v1/models", answer_models},
      {"GET", "/health", answer_health},
      {"GET", "/ping", answer_health},
      {"GET", "/version", answer_version},
      {"GET", "/metrics", answer_metrics},
      {"POST", "/tokenize", answer_tokenize},
      {"POST", "/detokenize", answer_detokenize},
  };
}

void answer_models(Service& service, Call call) {
  const ServedModel& model = service.model();
  JsonText json;
  json.open('{').key("object").text("list").key("data").open('[').open('{');
  json.key("id").text(model.name).key("object").text("model").key("created").integer(service.started());
  json.key("owned_by").text("routeopd").key("root").text(model.root.empty() ? model.name : model.root);
  json.key("parent")
      .null()
      .key("max_model_len")
      .integer(model.positions)
      .key("permission")
      .open('[')
      .close(']');
  json.close('}').close(']').close('}');
  service.send_json(call, json.take());
}

void answer_health(Service& service, Call call) {
  service.send(call, 200, "text/plain", {});
}

void answer_version(Service& service, Call call) {
  JsonText json;
  json.open('{').key("version").text(service.options().version);
  json.key("weights_version").integer(service.stats().weights_version).close('}');
  service.send_json(call, json.take());
}

void answer_metrics(Service& service, Call call) {
  service.send(call, 200, "text/plain; version=0.0.4; charset=utf-8",
               service.metrics().text(service.stats()));
}

}  // namespace routeopd::serve
