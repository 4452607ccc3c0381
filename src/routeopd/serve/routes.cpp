// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/routes.h"

#include "routeopd/serve/answer_json.h"

namespace routeopd::serve {
namespace {

OrderedJson entry_of(const Service& service) {
  const ServedModel& model = service.model();
  return {{"id", model.name},
          {"object", "model"},
          {"created", service.started()},
          {"owned_by", "routeopd"},
          {"root", model.root.empty() ? model.name : model.root},
          {"parent", nullptr},
          {"max_model_len", model.positions},
          {"permission", OrderedJson::array()}};
}

}  // namespace

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
  service.send_json(call, {{"object", "list"}, {"data", OrderedJson::array({entry_of(service)})}});
}

void answer_model(Service& service, Call call) {
  service.send_json(call, entry_of(service));
}

void answer_health(Service& service, Call call) {
  service.send(call, 200, "text/plain", {});
}

void answer_version(Service& service, Call call) {
  service.send_json(
      call, {{"version", service.options().version}, {"weights_version", service.stats().weights_version}});
}

void answer_metrics(Service& service, Call call) {
  service.send(call, 200, "text/plain; version=0.0.4; charset=utf-8",
               service.metrics().text(service.stats()));
}

}  // namespace routeopd::serve
