// One request for text, from its parameters to the engine's jobs, and from the engine's results to what an
// answer lists.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "routeopd/engine/request_queue.h"
#include "routeopd/serve/parameters.h"
#include "routeopd/serve/prompts.h"
#include "routeopd/serve/served_model.h"
#include "routeopd/serve/text_pieces.h"
#include "routeopd/serve/token_values.h"

namespace routeopd::serve {

struct Exchange {
  Parameters asked;
  const ServedModel* model = nullptr;
  std::string id;            // "cmpl-…"
  std::int64_t created = 0;  // seconds since 1970
  std::vector<PromptInput> prompts;
  std::vector<std::optional<std::size_t>> job_P;  // none: nothing is to be computed for the prompt

  // How many values to list at tokens of the response, and of the prompt; none: no values.
  std::optional<std::int32_t> top, prompt_top;

  std::size_t choices() const { return prompts.size() * static_cast<std::size_t>(asked.n); }
  std::size_t choice(std::size_t prompt, std::int32_t sample) const {
    return prompt * static_cast<std::size_t>(asked.n) + static_cast<std::size_t>(sample);
  }
  std::int64_t prompt_tokens() const;
  TokenNames names() const { return {model->tokenizer, asked.as_ids}; }
  // The prompt as `echo` shows it.
  std::string prompt_text(std::size_t prompt) const;
};

// Checks what was asked for against the model and the limits, and makes the jobs: one per prompt that needs
// any, in order. Random numbers are addressed by the seed (a new one where none was given), the prompt's
// place in the request and the sample: the same request gives the same tokens, whatever runs beside it.
// Throws ApiError with 400.
std::vector<engine::Job> make_jobs(Exchange& exchange, const Limits& limits);

// How a response ended with its last token.
TokenEnd end_of(const Exchange& exchange, Finish finish, std::int32_t last_id);

// A response as the engine wrote it. Spans are of the result's memory.
struct WrittenResponse {
  std::span<const std::int32_t> ids;
  std::vector<TokenRow> rows;
  TokenEnd end = TokenEnd::kLength;
};
WrittenResponse response_of(const Exchange& exchange, const engine::Outcome& outcome, std::size_t prompt,
                            std::int32_t sample);

// The values at a prompt's tokens, of which the first has none.
std::vector<TokenRow> prompt_rows(const Exchange& exchange, const engine::Outcome& outcome,
                                  std::size_t prompt);

// The text of a whole response, and the stop string that ended it, or none.
struct WholeText {
  std::string text, stop;
};
WholeText text_of(const Exchange& exchange, std::size_t prompt, const WrittenResponse& response);

// {"id", "object", "created", "model", "choices": []}, with room for more.
OrderedJson new_answer(const Exchange& exchange, const char* object);

// {"prompt_tokens", "total_tokens", "completion_tokens"}, of whole answers with details, which are null.
OrderedJson usage_of(std::int64_t prompt_tokens, std::int64_t written, bool whole);

// Adds "finish_reason" and "stop_reason".
void add_end(OrderedJson& choice, TokenEnd end, const std::string& stop);

// Null unless they are shown.
OrderedJson ids_if(bool shown, std::span<const std::int32_t> ids);

}  // namespace routeopd::serve
