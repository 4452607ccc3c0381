// What vLLM answers, read into our arrays. Every length and id is checked; what is wrong is a BadAnswer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "routeopd/engine/remote/server_api.h"

namespace routeopd::engine {

// What was asked of one response.
struct VllmScoring {
  std::int64_t prompt_length = 0;
  std::int64_t response_length = 0;
  std::int32_t real_ids = 0;
  std::int32_t k = 0;
  std::int64_t top = 0;  // entries per token that were asked for, at least k; -1: all ids
  std::span<const std::int32_t> gather_ids_NG{};
  std::int64_t gather_columns = 0;
  bool ids_per_position = false;  // their values come in an array of their own
};

// Appends the rows of one response. The answer is that of /inference/v1/generate or of /v1/completions.
void read_vllm_scores(std::string body, const VllmScoring& asked, ReadAnswer& into);

struct VllmWriting {
  std::int32_t sample = 0;
  std::int32_t real_ids = 0;
  std::int32_t k = 0;
  std::int64_t max_new_tokens = 0;
};

// Appends one response, of /inference/v1/generate.
void read_vllm_response(std::string body, const VllmWriting& asked, WrittenAnswer& into);

}  // namespace routeopd::engine
