// One token from one row of logits, by an addressed uniform number. No state: the same row and number give
// the same token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "routeopd/kernels/row_topk.h"

namespace routeopd::engine {

struct Decoding {
  double temperature = 1.0;  // 0: greedy
  double top_p = 1.0;
  std::int32_t top_k = 0;  // 0: off

  // Whether tokens are drawn from the model's own distribution.
  bool is_plain() const { return temperature == 1 && top_p == 1 && top_k == 0; }
};

// A row of logits with the sum of exponentials of each tile of `width` ids.
struct LogitRow {
  std::span<const float> logits;
  const kernels::LogSum* sums = nullptr;  // `stride` apart
  std::int64_t stride = 1;
  std::int64_t width = 0;
  std::int32_t best = -1;  // the largest logit, the lowest id among equals
};

// Inverse of the distribution function over ascending ids, after temperature, top-k and top-p (in that order,
// as transformers and vLLM apply them). Greedy takes the largest logit, the lowest id among equals. A row
// with NaN or +inf, or nothing but -inf, gives -1. Walks the row once where the distribution is not the
// model's own, else one tile of it.
std::int32_t sample_row(const LogitRow& row, const Decoding& decoding, float uniform);

// The same in plain loops and double precision. The two differ only where the number lies within rounding
// (1e-6) of a step of the distribution function.
std::int32_t reference_sample(std::span<const float> logits, const Decoding& decoding, float uniform);

}  // namespace routeopd::engine
