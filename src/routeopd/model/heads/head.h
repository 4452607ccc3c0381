// What the language-model heads share. A head turns the learner's last hidden states into the few (or many)
// numbers that a loss needs at each token; the loss answers with its gradient on those numbers; the head
// carries it back to the hidden states and to the rows of its weight. They differ only in which numbers these
// are:
//
//   pair head    log-odds z_b - z_a of m pairs           2m rows of the weight per token
//   gather head  logits at up to 2k given ids            2k rows
//   dense head   logits of the whole vocabulary          all rows, in chunks of tokens
//
// Here is the side of the tensors: checks, the choice of the implementation, and its form in ATen operations.
// The loops over plain memory are those of kernels/.
//
// Shapes: T tokens, M pairs per token, H hidden size, V rows of the weight (padding included), R <= V real
// ids.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routeopd/kernels/sparse_heads.h"

namespace routeopd::model {

// Which implementation runs. kAuto: the Highway kernel for CPU tensors in float32 or bfloat16, plain ATen
// operations for all others.
enum class Backend { kAuto, kAten, kHighway };

using TokenLoss = kernels::TokenLoss;

}  // namespace routeopd::model
