// What the language-model heads share. A head turns the learner's last hidden states into the few (or many)
// numbers that a loss needs at each token; the loss answers with its gradient on those numbers; the head
// carries it back to the hidden states and to the rows of its weight. Which numbers, is the only difference:
//
//   pair head    log-odds z_b - z_a of m pairs           2m rows of the weight a token
//   gather head  logits at up to 2k given ids            2k rows
//   dense head   logits of the whole vocabulary          all rows, in chunks of tokens
//
// Shapes: T tokens, M pairs a token, H hidden size, V rows of the weight (padding included), R <= V real ids.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "routeopd/kernels/head_rows.h"

namespace routeopd::model {

// Which implementation runs. kAuto: the Highway kernel for CPU tensors in float32 or bfloat16, plain ATen
// operations for all others.
enum class Backend { kAuto, kAten, kHighway };

// The loss of token t as a function of the values its head computed. Writes d loss / d value to `grad` (every
// element) and returns the loss, both already divided by the batch's denominator. `grad` may alias `values`.
// Called for different tokens from several threads at once.
using TokenLoss = std::function<double(std::int64_t t, std::span<const float> values, std::span<float> grad)>;

// The gradient of a head's weight: one persistent dense buffer that knows which of its rows are not zero, so
// that neither a sparse step nor the clearing after it walks the whole buffer (933 MB for 151,936 x 1,536).
// Its methods are threaded inside, but not to be called from two threads at once.
class HeadGradient {
 public:
  // `grad_VH`: float32 (float64 is accepted by the ATen paths), contiguous, all zero.
  explicit HeadGradient(at::Tensor grad_VH);

  // The dense gradient. Rows that were never touched are zero.
  const at::Tensor& tensor() const { return grad_VH_; }

  // Adds every visit into its row, rows in any order, the visits of one row in the order given: bitwise the
  // same result for any number of threads, and for a list of visits cut into several calls. `hidden_TH` is
  // float32 or bfloat16; products are accumulated in float32. Visits with a negative row are skipped.
  void add_visits(const at::Tensor& hidden_TH, std::span<const kernels::RowVisit> visits,
                  Backend backend = Backend::kAuto);

  // Begins a dense contribution to rows [0, rows): marks them touched, and returns the scale (0 or 1) by
  // which the caller's GEMM must multiply what is there before it adds. With 0 the caller must write all of
  // these rows.
  double begin_dense(std::int64_t rows);

  // Sets every touched row back to zero.
  void clear();

  std::int64_t touched_rows() const;

 private:
  void sort_by_row(std::span<const kernels::RowVisit> visits);
  void mark_touched();

  at::Tensor grad_VH_;
  std::int64_t dense_rows_ = 0;           // rows [0, dense_rows_) are touched
  std::vector<std::uint8_t> is_touched_;  // [V], by a visit
  std::vector<std::int32_t> touched_;     // the rows marked in is_touched_

  // Scratch of add_visits, kept between calls.
  std::vector<kernels::RowVisit> sorted_;
  std::vector<kernels::RowVisit> unsorted_;
  std::vector<std::int64_t> run_starts_;      // where each row's visits begin in sorted_, and the end
  std::vector<std::uint8_t> run_overwrites_;  // whether the run is the first to touch its row
};

}  // namespace routeopd::model
