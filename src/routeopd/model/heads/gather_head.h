// The gather head: logits z_i = h . W_i at a list of ids of each token's own, for objectives that live on a
// union of top-k sets (the exact coupling, union KLs). With g_i = d loss / d z_i the gradients are
//
//   d loss / d h = sum of g_i W_i,   d loss / d W_i = g_i h.
//
// O(H) operations an id, and no [T,V] anywhere. Tensors, backends and errors are as in pair_head.h.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>

#include "routeopd/model/heads/head.h"

namespace routeopd::model {

// The ids of token t are ids[offsets[t]] to ids[offsets[t + 1] - 1], in [0, V), in any order; an id that
// stands there twice is simply two values. Host memory; offsets has T + 1 elements, from 0 to ids.size().
// Tokens may have no ids.
struct TokenIds {
  std::span<const std::int64_t> offsets;
  std::span<const std::int32_t> ids;
};

// The logit of each id, in the order of the list: [ids.size()] on the device of hidden_TH.
at::Tensor gather_logits(const at::Tensor& hidden_TH, const at::Tensor& weight_VH, const TokenIds& token_ids,
                         Backend backend = Backend::kAuto);

// Forward and backward in one pass over the tokens: returns the sum of the token losses, overwrites
// grad_hidden_TH and adds to `gradient`. All three are bitwise the same for any number of threads. `loss`
// gets the logits of a token, and is not called for tokens without ids.
double gather_head_step(const at::Tensor& hidden_TH, const at::Tensor& weight_VH, const TokenIds& token_ids,
                        const TokenLoss& loss, at::Tensor& grad_hidden_TH, HeadGradient& gradient,
                        Backend backend = Backend::kAuto);

}  // namespace routeopd::model
