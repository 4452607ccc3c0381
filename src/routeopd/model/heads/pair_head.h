// The pair head: log-odds of m token pairs (source a, destination b) at each token,
//
//   log pi(b) - log pi(a) = z_b - z_a = h . (W_b - W_a),
//
// in which the log-partition cancels, so no logits but these are ever formed: O(T M H) operations in place of
// O(T V H). With g = d loss / d log-odds the gradients are
//
//   d loss / d h   = sum over pairs of g (W_b - W_a)
//   d loss / d W_b = g h,   d loss / d W_a = -g h.
//
// hidden_TH and weight_VH: contiguous, each float32 or bfloat16; sums are made in float32. The ATen backend
// also takes float64, for tests: values and gradients are float64 then, and only TokenLoss still sees
// float32. source_TM and destination_TM: int32, any device. A negative source means "no pair": its
// destination is ignored, its log-odds are 0 and it has no gradient. Ids outside [0, V) and tensors that do
// not fit throw UserError before anything is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include "routeopd/model/heads/head_gradient.h"

namespace routeopd::model {

// The log-odds of each pair: [T,M] on the device of hidden_TH.
at::Tensor pair_log_odds(const at::Tensor& hidden_TH, const at::Tensor& weight_VH,
                         const at::Tensor& source_TM, const at::Tensor& destination_TM,
                         Backend backend = Backend::kAuto);

// Forward and backward in one pass over the tokens: returns the sum of the token losses, overwrites
// grad_hidden_TH and adds to `gradient`. All three are bitwise the same for any number of threads. `loss`
// gets the M log-odds of a token; what it writes for a missing pair is ignored, and tokens without any pair
// are not shown to it.
double pair_head_step(const at::Tensor& hidden_TH, const at::Tensor& weight_VH, const at::Tensor& source_TM,
                      const at::Tensor& destination_TM, const TokenLoss& loss, at::Tensor& grad_hidden_TH,
                      HeadGradient& gradient, Backend backend = Backend::kAuto);

}  // namespace routeopd::model
