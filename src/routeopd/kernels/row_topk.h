// The k largest logits of a row and its log-sum-exp, in one walk over tiles of the row that are still in
// cache. It serves whole rows of logits and the pass over tiles of the vocabulary (vocabulary_tiles.h).
//
// Order: values descending, equal values by ascending id. The state of a row holds a set of (value, id) keys,
// and the k largest keys of a set do not depend on who inserted them when: tiles may come in any order and
// the states of several threads may be merged, with the same answer.
//
// Work is bounded for every order of the input (ascending, equal, sawtooth, staircase): see row_topk.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "routeopd/kernels/topk_state.h"

namespace routeopd::kernels {

// Shows a tile of `cols` consecutive ids, the first of which is `first_id`, of `rows` rows (the row stride is
// in elements) to the rows' states, and adds the tile's part of the log-sum-exp to `sums`, with what
// LogSum::entropy needs where that is wanted: the log-sum-exp has the same bits either way. -inf is an
// ordinary smallest value. A row with NaN or +inf keeps a state of unspecified but valid ids (or -1).
void row_topk_scan(RowTopk* states, LogSum* sums, const float* logits, std::int64_t rows, std::int64_t cols,
                   std::int64_t stride, std::int32_t first_id, bool entropy = false);

// Whole rows: values [rows, k], ids [rows, k], lse [rows], on the caller's thread. For V = 151,936 and
// |logits| <= 30 LogSum::log is within 5e-7 of the exact value (2.5e-6 on processors without fused
// multiply-add, before AVX2); lse is that, rounded to float32.
void topk_logsumexp(const float* logits, std::int64_t rows, std::int64_t cols, std::int64_t stride,
                    std::int32_t k, float* values, std::int32_t* ids, float* lse);

// The same in plain loops: partial_sort and a double-precision sum. The specification of the above.
void reference_topk_logsumexp(const float* logits, std::int64_t rows, std::int64_t cols, std::int64_t stride,
                              std::int32_t k, float* values, std::int32_t* ids, float* lse);

}  // namespace routeopd::kernels
