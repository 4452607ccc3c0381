// The loops of the pair head and of the gather head over plain memory: values at a few rows of the weight for
// each token, and, in the same pass, the loss of the token and what it adds to both gradients.
//
//   pair head    z_b - z_a = h . (W_b - W_a)     dh = sum of g (W_b - W_a),   dW_b = g h,   dW_a = -g h
//   gather head  z_i = h . W_i                   dh = sum of g_i W_i,         dW_i = g_i h
//
// with g = d loss / d value, dh and dW the gradients. Ids and shapes were checked by the caller. Every result
// is bitwise the same for any number of threads.
//
// Shapes: T tokens, M pairs per token, H hidden size, V rows of the weight.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "routeopd/kernels/head_rows.h"
#include "routeopd/kernels/parallel_for.h"
#include "routeopd/kernels/row_gradient.h"

namespace routeopd::kernels {

// The loss of token t as a function of the values its head computed. Writes d loss / d value to `grad` (every
// element) and returns the loss, both already divided by the batch's denominator. `grad` may alias `values`.
// Called for different tokens from several threads at once.
using TokenLoss = std::function<double(std::int64_t t, std::span<const float> values, std::span<float> grad)>;

// M pairs (source, destination) of each token. A negative source means "no pair": its destination is ignored,
// its log-odds are 0 and it has no gradient.
struct TokenPairs {
  const std::int32_t* source_TM = nullptr;
  const std::int32_t* destination_TM = nullptr;
  std::int64_t tokens = 0;
  std::int64_t per_token = 0;  // M
};

// The ids of token t are ids[offsets[t]] to ids[offsets[t + 1] - 1], in [0, V), in any order; an id that
// stands there twice is simply two values. offsets has T + 1 elements, from 0 to ids.size(). Tokens may have
// no ids.
struct TokenIds {
  std::span<const std::int64_t> offsets;
  std::span<const std::int32_t> ids;

  std::int64_t tokens() const { return std::ssize(offsets) - 1; }
};

void pair_log_odds(const RowMatrix& hidden, const RowMatrix& weight, const TokenPairs& pairs,
                   const ParallelFor& parallel, float* log_odds_TM);

// Returns the sum of the token losses, overwrites grad_hidden_TH and adds to grad_weight. `loss` gets the M
// log-odds of a token; what it writes for a missing pair is ignored, and tokens without any pair are not
// shown to it.
double pair_head_step(const RowMatrix& hidden, const RowMatrix& weight, const TokenPairs& pairs,
                      const TokenLoss& loss, const ParallelFor& parallel, float* grad_hidden_TH,
                      RowGradient& grad_weight);

// The logit of each id, in the order of the list.
void gather_logits(const RowMatrix& hidden, const RowMatrix& weight, const TokenIds& ids,
                   const ParallelFor& parallel, float* logits);

// As pair_head_step(), with the logits at a token's ids; tokens without ids are not shown to `loss`.
double gather_head_step(const RowMatrix& hidden, const RowMatrix& weight, const TokenIds& ids,
                        const TokenLoss& loss, const ParallelFor& parallel, float* grad_hidden_TH,
                        RowGradient& grad_weight);

// The loss of token t from its values, and its visits: two per pair, or one per id, with row -1 for those
// that carry no gradient. `grad` is scratch, as long as `values`.
double visit_pairs(std::int64_t t, const TokenPairs& pairs, const TokenLoss& loss,
                   std::span<const float> log_odds, std::span<float> grad, RowVisit* visits);
double visit_ids(std::int64_t t, const TokenIds& ids, const TokenLoss& loss, std::span<const float> logits,
                 std::span<float> grad, RowVisit* visits);

}  // namespace routeopd::kernels
