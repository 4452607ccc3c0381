// POST /v1/chat/completions.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/answer_shape.h"
#include "routeopd/serve/request_id.h"
#include "routeopd/serve/routes.h"

namespace routeopd::serve {
namespace {

// Who speaks: the assistant, or whoever wrote the message that is continued.
std::string role_of(const Parameters& asked) {
  if (asked.add_generation_prompt) return "assistant";
  return asked.messages.back().at("role").get<std::string>();
}

class ChatShape : public AnswerShape {
 public:
  std::string whole(const Exchange& exchange, const engine::Outcome& outcome,
                    const std::string& fingerprint) const override {
    const Parameters& asked = exchange.asked;
    JsonText json;
    std::int64_t written = 0;
    open_answer(json, exchange, "chat.completion");
    for (std::int32_t sample = 0; sample < asked.n; ++sample) {
      const WrittenResponse response = response_of(exchange, outcome, 0, sample);
      written += std::ssize(response.ids);
      write_choice(json, exchange, sample, response);
    }
    json.close(']').key("service_tier").null().key("system_fingerprint").text(fingerprint).key("usage");
    write_usage(json, exchange.prompt_tokens(), written, /*whole=*/true);
    json.key("prompt_logprobs");
    if (exchange.prompt_top) {
      write_prompt_logprobs(json, prompt_rows(exchange, outcome, 0), exchange.names(),
                            static_cast<std::size_t>(*exchange.prompt_top));
    } else {
      json.null();
    }
    write_prompt(json, exchange);
    json.close('}');
    return json.take();
  }

  // The role, once for each choice.
  std::vector<std::string> opening(const Exchange& exchange) const override {
    std::vector<std::string> pieces;
    for (std::int32_t sample = 0; sample < exchange.asked.n; ++sample) {
      JsonText json;
      open_answer(json, exchange, piece_object());
      json.open('{').key("index").integer(sample).key("delta").open('{');
      json.key("role").text(role_of(exchange.asked)).key("content").text("").close('}');
      json.key("logprobs").null().key("finish_reason").null().close('}').close(']');
      if (exchange.asked.usage_in_pieces) write_piece_usage(json, exchange, 0);
      write_prompt(json, exchange);
      json.close('}');
      pieces.push_back(json.take());
    }
    return pieces;
  }

  const char* piece_object() const override { return "chat.completion.chunk"; }

  std::string piece(const Exchange& exchange, const Piece& piece) const override {
    JsonText json;
    open_answer(json, exchange, piece_object());
    json.open('{').key("index").integer(static_cast<std::int64_t>(piece.choice));
    json.key("delta").open('{').key("content").text(piece.text).close('}').key("logprobs");
    if (exchange.top) {
      write_chat_logprobs(json, {&piece.row, 1}, exchange.names(), piece.before,
                          static_cast<std::size_t>(*exchange.top));
    } else {
      json.null();
    }
    if (piece.end == TokenEnd::kNone) {
      json.key("finish_reason").null();
    } else {
      write_end(json, piece.end, piece.stop);
    }
    json.key("token_ids");
    if (exchange.asked.return_token_ids) {
      json.ids({&piece.row.id, 1});
    } else {
      json.null();
    }
    json.close('}').close(']');
    if (exchange.asked.usage_in_pieces) write_piece_usage(json, exchange, piece.count);
    if (!piece.fingerprint.empty()) json.key("system_fingerprint").text(piece.fingerprint);
    json.close('}');
    return json.take();
  }

 private:
  static void open_answer(JsonText& json, const Exchange& exchange, const char* object) {
    json.open('{').key("id").text(exchange.id).key("object").text(object);
    json.key("created").integer(exchange.created).key("model").text(exchange.model->name);
    json.key("choices").open('[');
  }

  static void write_piece_usage(JsonText& json, const Exchange& exchange, std::int64_t written) {
    json.key("usage");
    write_usage(json, exchange.prompt_tokens(), written, /*whole=*/false);
  }

  static void write_prompt(JsonText& json, const Exchange& exchange) {
    const PromptInput& prompt = exchange.prompts.front();
    json.key("prompt_token_ids");
    if (exchange.asked.return_token_ids) {
      json.ids(prompt.ids);
    } else {
      json.null();
    }
    json.key("prompt_text");
    if (exchange.asked.return_prompt_text) {
      json.text(prompt.text);
    } else {
      json.null();
    }
  }

  static void write_choice(JsonText& json, const Exchange& exchange, std::int32_t sample,
                           const WrittenResponse& response) {
    const WholeText whole = text_of(exchange, 0, response);
    json.open('{').key("index").integer(sample).key("message").open('{');
    json.key("role").text(role_of(exchange.asked)).key("content").text(whole.text);
    for (const char* none : {"refusal", "annotations", "audio", "function_call", "reasoning"})
      json.key(none).null();
    json.close('}').key("logprobs");
    if (exchange.top) {
      write_chat_logprobs(json, response.rows, exchange.names(), exchange.prompts.front().ids,
                          static_cast<std::size_t>(*exchange.top));
    } else {
      json.null();
    }
    write_end(json, response.end, whole.stop);
    json.key("token_ids");
    if (exchange.asked.return_token_ids) {
      json.ids(response.ids);
    } else {
      json.null();
    }
    json.close('}');
  }
};

}  // namespace

void answer_chat(Service& service, Call call) {
  static const ChatShape shape;
  Exchange exchange;
  exchange.asked = read_parameters(call.request.body, Endpoint::kChat);
  service.check_model(exchange.asked.model);
  exchange.model = &service.model();
  exchange.prompts.push_back(read_messages(exchange.asked, service.model(), service.limits()));
  if (!exchange.asked.request_id.empty()) call.id = exchange.asked.request_id;
  exchange.id = "chatcmpl-" + call.id;
  exchange.created = seconds_now();
  answer_exchange(service, std::move(call), std::move(exchange), shape);
}

}  // namespace routeopd::serve
