// What SGLang's /generate answers, read into our arrays. Every length and id is checked; what is wrong is a
// BadAnswer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "routeopd/engine/remote/server_api.h"

namespace routeopd::engine {

// What was asked of one response, with logprob_start_len at the prompt's last token.
struct SglangScoring {
  std::int64_t response_length = 0;
  std::int32_t real_ids = 0;
  std::int32_t k = 0;
  std::int64_t top = 0;  // top_logprobs_num, at least k
  std::span<const std::int32_t> gather_ids_NG{};
  std::int64_t gather_columns = 0;
  bool ids_of_request = false;  // token_ids_logprob had the ids; else they are looked up in the top-k
};

// Appends the rows of one response.
void read_sglang_scores(std::string body, const SglangScoring& asked, ReadAnswer& into);

struct SglangWriting {
  std::int32_t sample = 0;
  std::int32_t real_ids = 0;
  std::int32_t k = 0;
  std::int64_t max_new_tokens = 0;
};

// Appends one response.
void read_sglang_response(std::string body, const SglangWriting& asked, WrittenAnswer& into);

}  // namespace routeopd::engine
