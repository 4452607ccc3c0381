// POST /v1/chat/completions.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/answer_json.h"
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
  OrderedJson whole(const Exchange& exchange, const engine::Outcome& outcome,
                    const std::string& fingerprint) const override {
    OrderedJson answer = new_answer(exchange, "chat.completion");
    std::int64_t written = 0;
    for (std::int32_t sample = 0; sample < exchange.asked.n; ++sample) {
      const WrittenResponse response = response_of(exchange, outcome, 0, sample);
      written += std::ssize(response.ids);
      answer["choices"].push_back(whole_choice(exchange, sample, response));
    }
    answer["service_tier"] = nullptr;
    answer["system_fingerprint"] = fingerprint;
    answer["usage"] = usage_of(exchange.prompt_tokens(), written, /*whole=*/true);
    OrderedJson& listed = answer["prompt_logprobs"];
    if (exchange.prompt_top)
      listed = prompt_logprobs(prompt_rows(exchange, outcome, 0), exchange.names(),
                               static_cast<std::size_t>(*exchange.prompt_top));
    add_prompt(answer, exchange);
    return answer;
  }

  // The role, once for each choice.
  std::vector<OrderedJson> opening(const Exchange& exchange) const override {
    std::vector<OrderedJson> pieces;
    for (std::int32_t sample = 0; sample < exchange.asked.n; ++sample) {
      OrderedJson& piece = pieces.emplace_back(new_answer(exchange, piece_object()));
      piece["choices"].push_back({{"index", sample},
                                  {"delta", {{"role", role_of(exchange.asked)}, {"content", ""}}},
                                  {"logprobs", nullptr},
                                  {"finish_reason", nullptr}});
      if (exchange.asked.usage_in_pieces)
        piece["usage"] = usage_of(exchange.prompt_tokens(), 0, /*whole=*/false);
      add_prompt(piece, exchange);
    }
    return pieces;
  }

  const char* piece_object() const override { return "chat.completion.chunk"; }

  OrderedJson piece(const Exchange& exchange, const Piece& piece) const override {
    OrderedJson choice = room_for(6);
    choice["index"] = piece.choice;
    choice["delta"]["content"] = piece.text;
    choice["logprobs"] = values_of(exchange, {&piece.row, 1}, piece.before);
    if (piece.end == TokenEnd::kNone) {
      choice["finish_reason"] = nullptr;
    } else {
      add_end(choice, piece.end, piece.stop);
    }
    choice["token_ids"] = ids_if(exchange.asked.return_token_ids, {&piece.row.id, 1});
    OrderedJson answer = new_answer(exchange, piece_object());
    answer["choices"].push_back(std::move(choice));
    if (exchange.asked.usage_in_pieces)
      answer["usage"] = usage_of(exchange.prompt_tokens(), piece.count, /*whole=*/false);
    if (!piece.fingerprint.empty()) answer["system_fingerprint"] = piece.fingerprint;
    return answer;
  }

 private:
  static OrderedJson values_of(const Exchange& exchange, std::span<const TokenRow> rows,
                               std::span<const std::int32_t> before) {
    if (!exchange.top) return nullptr;
    return chat_logprobs(rows, exchange.names(), before, static_cast<std::size_t>(*exchange.top));
  }

  static void add_prompt(OrderedJson& answer, const Exchange& exchange) {
    const PromptInput& prompt = exchange.prompts.front();
    answer["prompt_token_ids"] = ids_if(exchange.asked.return_token_ids, prompt.ids);
    OrderedJson& text = answer["prompt_text"];
    if (exchange.asked.return_prompt_text) text = prompt.text;
  }

  static OrderedJson whole_choice(const Exchange& exchange, std::int32_t sample,
                                  const WrittenResponse& response) {
    const WholeText whole = text_of(exchange, 0, response);
    OrderedJson choice = room_for(6);
    choice["index"] = sample;
    OrderedJson& message = choice["message"];
    message["role"] = role_of(exchange.asked);
    message["content"] = whole.text;
    for (const char* none : {"refusal", "annotations", "audio", "function_call", "reasoning"})
      message[none] = nullptr;
    choice["logprobs"] = values_of(exchange, response.rows, exchange.prompts.front().ids);
    add_end(choice, response.end, whole.stop);
    choice["token_ids"] = ids_if(exchange.asked.return_token_ids, response.ids);
    return choice;
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
