// The two ends of a tile of logits: rows of an LM head, as they lie in memory, laid out in panels for the
// product (packed_gemm.h), and what some models do with the product before it is a logit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "routeopd/kernels/row_matrix.h"

namespace routeopd::kernels {

// Rows [first, first + count) of the weight as float32 panels (ceil(count / 16) of them, 64-byte aligned),
// which is exact for every type. Columns of the last panel past `count` repeat the last row: no output is
// made of them.
void pack_rows(const RowMatrix& weight, std::int64_t first, std::int64_t count, float* panels);

// logit = cap(scale * (h . W_v + bias_v)), with cap(z) = softcap * tanh(z / softcap) where that is set: the
// bias belongs to the linear layer, scales (Cohere's logit_scale, Granite's 1 / logits_scaling) and caps
// (Gemma 2's final_logit_softcapping) follow it.
struct LogitTransform {
  float scale = 1;
  float softcap = 0;            // 0: none
  const float* bias = nullptr;  // [R]; null: none

  bool is_identity() const { return scale == 1 && softcap == 0 && bias == nullptr; }
};

// Products at `width` ids from `first` on, of `rows` rows that are `stride` floats apart, become logits. tanh
// is within 4 units in the last place; NaN stays NaN. A value has the same bits wherever it stands.
void transform_logits(const LogitTransform& transform, std::int64_t first, std::int64_t rows,
                      std::int64_t width, std::int64_t stride, float* logits);

// The same in plain loops with std::tanh, the specification of the above.
void reference_transform_logits(const LogitTransform& transform, std::int64_t first, std::int64_t rows,
                                std::int64_t width, std::int64_t stride, float* logits);

}  // namespace routeopd::kernels
