// The inner loops of the sparse heads, over rows that are gathered from a matrix in memory: dot products of
// one hidden row with rows or row differences, and sums of scaled rows. Rows are float32, bfloat16 or
// float16, hidden and weight each of its own type, and are widened in registers; sums are float32. Ids were
// checked by the caller.
//
// All are bound by memory. `ahead` therefore says how many entries follow those of this call at the given
// pointer and will be asked for soon: their rows are prefetched while this call computes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "routeopd/kernels/row_matrix.h"

namespace routeopd::kernels {

// A contribution coefficient * hidden[token] to one row of the head's gradient, and at the same time
// coefficient * weight[row] to the gradient of that token's hidden state.
struct RowVisit {
  std::int32_t row;  // negative: no visit
  std::int32_t token;
  float coefficient;
};

// logits[i] = hidden[token] . weight[ids[i]], i < count.
void row_dots(const RowMatrix& hidden, std::int64_t token, const RowMatrix& weight, const std::int32_t* ids,
              std::int64_t count, std::int64_t ahead, float* logits);

// log_odds[i] = hidden[token] . (weight[destination[i]] - weight[source[i]]), or 0 where source[i] < 0. The
// difference is taken first, so what two rows have in common never enters the sum.
void pair_dots(const RowMatrix& hidden, std::int64_t token, const RowMatrix& weight,
               const std::int32_t* source, const std::int32_t* destination, std::int64_t count,
               std::int64_t ahead, float* log_odds);

// sum = the sum of visits[i].coefficient * weight[visits[i].row], i < count: the gradient of one hidden
// state. Visits with a negative row are skipped.
void sum_weight_rows(const RowMatrix& weight, const RowVisit* visits, std::int64_t count, float* sum);

// grad_row += the sum of visits[i].coefficient * hidden[visits[i].token], i < count, added in that order: the
// gradient of one row of the weight. With `overwrite` the row counts as zero and is not read.
void add_hidden_rows(const RowMatrix& hidden, const RowVisit* visits, std::int64_t count, std::int64_t ahead,
                     bool overwrite, float* grad_row);

// grad_row = the same sum, rounded once to `type`; the sum itself is left in scratch [hidden.width].
void round_hidden_rows(const RowMatrix& hidden, const RowVisit* visits, std::int64_t count,
                       std::int64_t ahead, RowType type, float* scratch, void* grad_row);

// Sets the `count` floats of a row to zero.
void zero_row(float* row, std::int64_t count);

// Makes the rows written so far visible to other threads. Call it once in each thread that called
// sum_weight_rows(), add_hidden_rows() or zero_row(): they write whole rows past the cache.
void flush_row_writes();

}  // namespace routeopd::kernels
