// One token from one row of logits, by an addressed uniform number. No state: the same row and number give the same
// token.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace routeopd::engine {

struct Decoding {
  double temperature = 1.0;  // 0: greedy
  double top_p = 1.0;
  std::int32_t top_k = 0;  // 0: off
};

// Inverse of the distribution function over ascending ids, at temperature 1 / top-k / top-p as `decoding` says (in that
// order, as transformers and vLLM apply them). Greedy takes the largest logit, the lowest id among equals. A row with
// NaN or +inf gives -1.
std::int32_t sample_row(std::span<const float> logits, const Decoding& decoding, float uniform);

}  // namespace routeopd::engine
