// The Qwen3 decoder: ids in, last hidden states out (after the final norm). The heads are separate (heads/), so is the
// attention: training and scoring attend inside packed sequences, decoding attends to a cache.
//
// Shapes: T tokens, H hidden, N query heads, M key-value heads, D head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <functional>

#include "routeopd/model/model.h"
#include "routeopd/model/packed_batch.h"

namespace routeopd::model {

// The attention of one layer: q_TND, k_TMD and v_TMD, normalised and rotated, to [T, N * D].
using Attend = std::function<at::Tensor(std::size_t layer, const at::Tensor& q_TND, const at::Tensor& k_TMD,
                                        const at::Tensor& v_TMD)>;

// Hidden states of tokens ids_T at positions_T (both int64, [T]). Differentiable where gradients are on.
at::Tensor qwen3_hidden(const Model& model, const at::Tensor& ids_T, const at::Tensor& positions_T,
                        const Attend& attend);

// Over packed sequences.
at::Tensor packed_hidden(const Model& model, const PackedBatch& batch);

}  // namespace routeopd::model
