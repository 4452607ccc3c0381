// The gather head: logits z_i = h . W_i at a list of ids of each token's own, for objectives that live on a
// union of top-k sets (the exact coupling, union KLs). With g_i = d loss / d z_i the gradients are
//
//   d loss / d h = sum of g_i W_i,   d loss / d W_i = g_i h.
//
// O(H) operations per id, and no [T,V] anywhere. Tensors, backends and errors are as in pair_head.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include "routeopd/model/heads/head_gradient.h"

namespace routeopd::model {

using TokenIds = kernels::TokenIds;  // in host memory

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
