// POST /v1/completions.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/answer_json.h"
#include "routeopd/serve/answer_shape.h"
#include "routeopd/serve/request_id.h"
#include "routeopd/serve/routes.h"

namespace routeopd::serve {
namespace {

class CompletionShape : public AnswerShape {
 public:
  OrderedJson whole(const Exchange& exchange, const engine::Outcome& outcome,
                    const std::string& fingerprint) const override {
    OrderedJson answer = new_answer(exchange, piece_object());
    std::int64_t written = 0;
    for (std::size_t prompt = 0; prompt < exchange.prompts.size(); ++prompt) {
      std::vector<TokenRow> values;
      if (exchange.prompt_top) values = prompt_rows(exchange, outcome, prompt);
      for (std::int32_t sample = 0; sample < exchange.asked.n; ++sample) {
        const WrittenResponse response = response_of(exchange, outcome, prompt, sample);
        written += std::ssize(response.ids);
        answer["choices"].push_back(
            whole_choice(exchange, prompt, exchange.choice(prompt, sample), response, values));
      }
    }
    answer["service_tier"] = nullptr;
    answer["system_fingerprint"] = fingerprint;
    answer["usage"] = usage_of(exchange.prompt_tokens(), written, /*whole=*/true);
    return answer;
  }

  std::vector<OrderedJson> opening(const Exchange&) const override { return {}; }
  const char* piece_object() const override { return "text_completion"; }

  OrderedJson piece(const Exchange& exchange, const Piece& piece) const override {
    const Parameters& asked = exchange.asked;
    const PromptInput& prompt = exchange.prompts[piece.prompt];
    OrderedJson choice = room_for(7);
    choice["index"] = piece.choice;
    choice["text"] = piece.text;
    choice["logprobs"] = values_of(exchange, {&piece.row, 1}, piece.before, piece.offset);
    add_end(choice, piece.end, piece.stop);
    choice["prompt_token_ids"] = ids_if(asked.return_token_ids && piece.count == 1, prompt.ids);
    choice["token_ids"] = ids_if(shows_ids(exchange), {&piece.row.id, 1});
    OrderedJson answer = new_answer(exchange, piece_object());
    answer["choices"].push_back(std::move(choice));
    if (asked.usage_in_pieces)
      answer["usage"] = usage_of(std::ssize(prompt.ids), piece.count, /*whole=*/false);
    if (!piece.fingerprint.empty()) answer["system_fingerprint"] = piece.fingerprint;
    return answer;
  }

 private:
  // Without a tokenizer the ids are all there is.
  static bool shows_ids(const Exchange& exchange) {
    return exchange.asked.return_token_ids || exchange.model->tokenizer == nullptr;
  }

  static OrderedJson values_of(const Exchange& exchange, std::span<const TokenRow> rows,
                               std::span<const std::int32_t> before, std::int64_t offset) {
    if (!exchange.top) return nullptr;
    return completion_logprobs(rows, exchange.names(), before, static_cast<std::size_t>(*exchange.top),
                               offset);
  }

  static OrderedJson whole_choice(const Exchange& exchange, std::size_t prompt, std::size_t number,
                                  const WrittenResponse& response, const std::vector<TokenRow>& values) {
    const Parameters& asked = exchange.asked;
    const std::span<const std::int32_t> prompt_ids = exchange.prompts[prompt].ids;
    WholeText whole = text_of(exchange, prompt, response);
    // As in vLLM, a prompt that is shown as ids is not shown as text as well.
    if (asked.echo && !asked.return_token_ids) whole.text.insert(0, exchange.prompt_text(prompt));
    std::vector<TokenRow> rows;
    if (asked.echo) rows = values;
    rows.insert(rows.end(), response.rows.begin(), response.rows.end());
    OrderedJson choice = room_for(8);
    choice["index"] = number;
    choice["text"] = std::move(whole.text);
    choice["logprobs"] = values_of(exchange, rows, prompt_ids.first(asked.echo ? 0 : prompt_ids.size()), 0);
    add_end(choice, response.end, whole.stop);
    choice["token_ids"] = ids_if(shows_ids(exchange), response.ids);
    OrderedJson& listed = choice["prompt_logprobs"];
    if (exchange.prompt_top)
      listed = prompt_logprobs(values, exchange.names(), static_cast<std::size_t>(*exchange.prompt_top));
    choice["prompt_token_ids"] = ids_if(asked.return_token_ids, prompt_ids);
    return choice;
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
