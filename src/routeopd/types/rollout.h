// What the student wrote, and its distributions while it wrote. The responses of a step follow one another: a
// visited state is a row of the N arrays, and everything downstream is an array over the same rows.
//
// Shapes: P prompts, B responses, N = sum of the responses' lengths, K columns of the behaviour student's
// top-k, H hidden size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "routeopd/base/philox.h"

namespace routeopd {

enum class Finish : std::uint8_t { kStop, kLength };

// States [first_state, first_state + length): the j-th predicts the response's token j, the end of sequence
// included.
struct Response {
  std::int32_t prompt = 0;  // index into Rollout::prompt_ids_P
  std::int32_t sample = 0;  // which of the prompt's responses
  std::int64_t first_state = 0;
  std::int64_t length = 0;
  Finish finish = Finish::kStop;
};

struct Rollout {
  std::vector<std::vector<std::int32_t>> prompt_ids_P;
  std::vector<Response> responses_B;

  // What the teacher reads before a response in place of prompt_ids_P: an empty entry is the same, an empty
  // vector the same for all. Engines neither fill nor read it; who lets a teacher score does.
  std::vector<std::vector<std::int32_t>> teacher_prompt_ids_P;
  // Which of several teachers reads the prompt's responses; empty: the first reads all.
  std::vector<std::int32_t> teacher_P;

  std::vector<std::int32_t> id_N;       // the token taken
  std::vector<float> logprob_N;         // its log-probability under the student at temperature 1
  std::vector<StateAddress> address_N;  // of the state's random numbers
  // What logprob_N was when the token was drawn, where that was computed again since; empty: it was not.
  std::vector<float> engine_logprob_N;

  // The behaviour distribution at temperature 1: the top k, descending, and the log-partition over the real
  // ids. Empty unless capture was asked for. Hidden states, where the engine has them, give its values at ids
  // that are known later.
  std::int32_t columns = 0;
  std::vector<std::int32_t> top_ids_NK;
  std::vector<float> top_logits_NK;
  std::vector<float> logsumexp_N;
  std::vector<float> entropy_N;  // over the real ids, nats; empty unless asked for
  std::int64_t hidden_size = 0;
  std::vector<float> hidden_NH;

  // Log-probabilities of the tokens taken, by the engine that took them.
  const std::vector<float>& written_logprob_N() const {
    return engine_logprob_N.empty() ? logprob_N : engine_logprob_N;
  }

  std::int64_t states() const { return static_cast<std::int64_t>(id_N.size()); }
};

}  // namespace routeopd
