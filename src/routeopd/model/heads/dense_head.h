// The dense head: logits of the whole vocabulary, in chunks of tokens, for the objectives that need a
// log-partition.
//
// The batch's denominator is known beforehand, so the loss and its gradients to hidden states and head are
// formed in the same pass over a chunk: 6 T H R operations, nothing recomputed, memory O(chunk * R), exact
// gradients.
//
// Shapes: T tokens, C of them a chunk, H hidden size, V rows of the weight, R <= V real ids.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>

#include "routeopd/model/heads/head_gradient.h"

namespace routeopd::model {

struct DenseLoss {
  // Called before the rows of tokens [begin, end), from one thread: the place to compute a teacher's logits.
  std::function<void(std::int64_t begin, std::int64_t end)> begin_chunk;

  // The Highway path: a row of R logits in, the gradient out, in the same memory.
  TokenLoss row;

  // The ATen path, on any device: replaces logits_CR, the rows of tokens [begin, end), by the gradient;
  // returns the loss.
  std::function<double(std::int64_t begin, std::int64_t end, at::Tensor& logits_CR)> chunk;
};

// Rows of logits held at a time.
inline constexpr std::int64_t kDenseChunk = 256;

// Forward and backward. grad_hidden_TH (float32) is overwritten; the head's gradient is added to. Returns the
// loss.
double dense_head_step(const at::Tensor& hidden_TH, const at::Tensor& weight_VH, std::int64_t real_ids,
                       const DenseLoss& loss, at::Tensor& grad_hidden_TH, HeadGradient& grad_weight,
                       Backend backend = Backend::kAuto, std::int64_t chunk = kDenseChunk);

// logits_CR = hidden_CH * weight_VH[0:R]^T in float32 (float64 for float64 inputs), bfloat16 widened tile by
// tile.
void dense_logits(const at::Tensor& hidden_CH, const at::Tensor& weight_VH, std::int64_t real_ids,
                  at::Tensor& logits_CR);

}  // namespace routeopd::model
