// The backward of the sparse heads where the gradient on their values is given, as autograd has it. (The
// ..._step() functions of sparse_heads.h make values, loss and gradients in one pass.)
//
//   pair head    dh = sum of g (W_b - W_a),   dW_b = g h,   dW_a = -g h
//   gather head  dh = sum of g_i W_i,         dW_i = g_i h
//
// Both are lists of visits to rows of the weight, the same number for every token. Ids and shapes were
// checked by the caller. Every result is bitwise the same for any number of threads.
//
// Shapes: T tokens, M pairs per token, G ids per token, H hidden size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "routeopd/kernels/head_rows.h"
#include "routeopd/kernels/parallel_for.h"
#include "routeopd/kernels/row_gradient.h"
#include "routeopd/kernels/sparse_heads.h"

namespace routeopd::kernels {

// Two visits per pair: source, destination. Row -1 where there is no pair or no gradient.
std::vector<RowVisit> pair_visits(const TokenPairs& pairs, const float* grad_TM);

// One visit per id; a negative id is none.
std::vector<RowVisit> gather_visits(const std::int32_t* ids_TG, const float* grad_TG, std::int64_t tokens,
                                    std::int64_t per_token);

// Overwrites grad_hidden_TH with what the visits add to each token's hidden state.
void hidden_gradient(const RowMatrix& weight, std::span<const RowVisit> visits, std::int64_t tokens,
                     const ParallelFor& parallel, float* grad_hidden_TH);

// Adds the visits to the head's gradient, in blocks of tokens whose hidden states stay in cache.
void add_visits(const RowMatrix& hidden, std::span<const RowVisit> visits, std::int64_t tokens,
                const ParallelFor& parallel, RowGradient& grad_weight);

}  // namespace routeopd::kernels
