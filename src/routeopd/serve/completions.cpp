// POST /v1/completions.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/answer_shape.h"
#include "routeopd/serve/request_id.h"
#include "routeopd/serve/routes.h"

namespace routeopd::serve {
namespace {

class CompletionShape : public AnswerShape {
 public:
  std::string whole(const Exchange& exchange, const engine::Outcome& outcome,
                    const std::string& fingerprint) const override {
    JsonText json;
    std::int64_t written = 0;
    open_answer(json, exchange);
    for (std::size_t prompt = 0; prompt < exchange.prompts.size(); ++prompt) {
      std::vector<TokenRow> values;
      if (exchange.prompt_top) values = prompt_rows(exchange, outcome, prompt);
      for (std::int32_t sample = 0; sample < exchange.asked.n; ++sample) {
        const WrittenResponse response = response_of(exchange, outcome, prompt, sample);
        written += std::ssize(response.ids);
        write_choice(json, exchange, prompt, exchange.choice(prompt, sample), response, values);
      }
    }
    json.close(']').key("service_tier").null().key("system_fingerprint").text(fingerprint).key("usage");
    write_usage(json, exchange.prompt_tokens(), written, /*whole=*/true);
    json.close('}');
    return json.take();
  }

  std::vector<std::string> opening(const Exchange&) const override { return {}; }
  const char* piece_object() const override { return "text_completion"; }

  std::string piece(const Exchange& exchange, const Piece& piece) const override {
    const Parameters& asked = exchange.asked;
    const PromptInput& prompt = exchange.prompts[piece.prompt];
    JsonText json;
    open_answer(json, exchange);
    json.open('{').key("index").integer(static_cast<std::int64_t>(piece.choice)).key("text").text(piece.text);
    json.key("logprobs");
    if (exchange.top) {
      write_completion_logprobs(json, {&piece.row, 1}, exchange.names(), piece.before,
                                static_cast<std::size_t>(*exchange.top), piece.offset);
    } else {
      json.null();
    }
    write_end(json, piece.end, piece.stop);
    json.key("prompt_token_ids");
    if (asked.return_token_ids && piece.count == 1) {
      json.ids(prompt.ids);
    } else {
      json.null();
    }
    json.key("token_ids");
    if (shows_ids(exchange)) {
      json.ids({&piece.row.id, 1});
    } else {
      json.null();
    }
    json.close('}').close(']');
    if (asked.usage_in_pieces) {
      json.key("usage");
      write_usage(json, std::ssize(prompt.ids), piece.count, /*whole=*/false);
    }
    if (!piece.fingerprint.empty()) json.key("system_fingerprint").text(piece.fingerprint);
    json.close('}');
    return json.take();
  }

 private:
  // Without a tokenizer the ids are all there is.
  static bool shows_ids(const Exchange& exchange) {
    return exchange.asked.return_token_ids || exchange.model->tokenizer == nullptr;
  }

  static void open_answer(JsonText& json, const Exchange& exchange) {
    json.open('{').key("id").text(exchange.id).key("object").text("text_completion");
    json.key("created").integer(exchange.created).key("model").text(exchange.model->name);
    json.key("choices").open('[');
  }

  static void write_choice(JsonText& json, const Exchange& exchange, std::size_t prompt, std::size_t choice,
                           const WrittenResponse& response, const std::vector<TokenRow>& values) {
    const Parameters& asked = exchange.asked;
    const std::vector<std::int32_t>& prompt_ids = exchange.prompts[prompt].ids;
    WholeText whole = text_of(exchange, prompt, response);
    // As in vLLM, a prompt that is shown as ids is not shown as text as well.
    if (asked.echo && !asked.return_token_ids) whole.text.insert(0, exchange.prompt_text(prompt));
    json.open('{').key("index").integer(static_cast<std::int64_t>(choice)).key("text").text(whole.text);
    json.key("logprobs");
    if (!exchange.top) {
      json.null();
    } else {
      std::vector<TokenRow> rows;
      if (asked.echo) rows = values;
      rows.insert(rows.end(), response.rows.begin(), response.rows.end());
      const std::span<const std::int32_t> before = prompt_ids;
      write_completion_logprobs(json, rows, exchange.names(), before.first(asked.echo ? 0 : before.size()),
                                static_cast<std::size_t>(*exchange.top), 0);
    }
    write_end(json, response.end, whole.stop);
    json.key("token_ids");
    if (shows_ids(exchange)) {
      json.ids(response.ids);
    } else {
      json.null();
    }
    json.key("prompt_logprobs");
    if (exchange.prompt_top) {
      write_prompt_logprobs(json, values, exchange.names(), static_cast<std::size_t>(*exchange.prompt_top));
    } else {
      json.null();
    }
    json.key("prompt_token_ids");
    if (asked.return_token_ids) {
      json.ids(prompt_ids);
    } else {
      json.null();
    }
    json.close('}');
  }
};

}  // namespace

void answer_completions(Service& service, Call call) {
  static const CompletionShape shape;
  Exchange exchange;
  exchange.asked = read_parameters(call.request.body, Endpoint::kCompletions);
  service.check_model(exchange.asked.model);
  exchange.model = &service.model();
  exchange.prompts = read_prompts(exchange.asked, service.model(), service.limits());
  exchange.asked.prompt = nullptr;  // encoded
  if (!exchange.asked.request_id.empty()) call.id = exchange.asked.request_id;
  exchange.id = "cmpl-" + call.id;
  exchange.created = seconds_now();
  answer_exchange(service, std::move(call), std::move(exchange), shape);
}

}  // namespace routeopd::serve
