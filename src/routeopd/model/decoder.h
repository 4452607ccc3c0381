// The decoder: rows of the embedding in, last hidden states out (after the final norm), differentiable. One
// forward for all architectures: what sets them apart, it reads from formats/architecture.h. The heads are
// separate (heads/), and so is the attention. The engine has a forward of its own (inference/).
//
// Shapes: T tokens, H hidden, N query heads, M key-value heads, D head, E = D / 2 planes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "routeopd/model/model.h"
#include "routeopd/model/packed_batch.h"

namespace routeopd::model {

// The attention of one layer: q_TND, k_TMD and v_TMD, rotated, to [T, N * D].
using Attend = std::function<at::Tensor(std::size_t layer, const at::Tensor& q_TND, const at::Tensor& k_TMD,
                                        const at::Tensor& v_TMD)>;

// cos and sin of position * frequency, for the planes that rotary embedding turns.
struct Rotation {
  at::Tensor cos_T1E, sin_T1E;
};

Rotation rotation_of(const formats::ModelConfig& config, const at::Tensor& positions_T);

// What the forward keeps for the backward.
enum class Activations {
  kKeep,       // all of them
  kRecompute,  // the input of each block; the rest is computed again in the backward
};

// Floats that autograd keeps per token of one block with kKeep.
std::int64_t activation_floats(const formats::ModelConfig& config);

// Hidden states of tokens whose rows of the embedding are embedded_TH (as they stand in the table: they are
// scaled here where the architecture does that), at positions_T (int64, [T]). Computed in the weights' type.
// Differentiable where gradients are on.
at::Tensor decoder_hidden(const Model& model, const at::Tensor& embedded_TH, const at::Tensor& positions_T,
                          const Attend& attend, Activations activations = Activations::kKeep);

// Over packed sequences. With kRecompute the batch must live until the backward is done.
at::Tensor packed_hidden(const Model& model, const PackedBatch& batch,
                         Activations activations = Activations::kKeep);

// The same from rows that the caller looked up: their gradient is then the caller's too, one row per token in
// place of the whole vocabulary.
at::Tensor packed_hidden(const Model& model, const PackedBatch& batch, const at::Tensor& embedded_TH,
                         Activations activations);

}  // namespace routeopd::model
