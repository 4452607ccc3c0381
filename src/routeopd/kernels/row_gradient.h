// The gradient of a head's weight in the rows of a dense buffer that knows which of them are not zero, so
// that neither a sparse step nor the clearing after it walks the whole buffer (933 MB for 151,936 x 1,536).
//
// Visits are sorted by row (stable, so that a row's sum has one order), and threads take whole rows, cut
// where the number of visits is even: the same bits for any number of threads.
//
// Shapes: V rows, H columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "routeopd/kernels/head_rows.h"
#include "routeopd/kernels/parallel_for.h"

namespace routeopd::kernels {

class RowGradient {
 public:
  // grad_VH: the caller's memory, without gaps, all zero. Null: the caller keeps the rows in another form,
  // adds sort()'s visits and zeroes rows by itself; add() and clear() are then not to be called.
  RowGradient(float* grad_VH, std::int64_t rows, std::int64_t width);

  // Adds every visit into its row, rows in any order, the visits of one row in the order given, also over
  // several calls. Rows are below V (negative ones are skipped) and tokens are rows of `hidden`: checked by
  // the caller.
  void add(const RowMatrix& hidden, std::span<const RowVisit> visits, const ParallelFor& parallel);

  // The visits by ascending row, without those whose row is negative; their rows count as touched from now
  // on. Valid until the next call.
  std::span<const RowVisit> sort(std::span<const RowVisit> visits);

  // Where each row's visits begin in what sort() returned, and the end.
  std::span<const std::int64_t> run_starts() const { return run_starts_; }

  // Begins a dense contribution to rows [0, rows): marks them touched, and returns the scale (0 or 1) by
  // which the caller's product must multiply what is there before it adds. With 0 the caller must write all
  // of these rows.
  double begin_dense(std::int64_t rows);

  // Counts rows as touched that the caller writes by itself.
  void touch(std::span<const std::int32_t> rows);

  // Sets every touched row back to zero.
  void clear(const ParallelFor& parallel);

  // Forgets what was touched, after the caller has zeroed rows [0, dense_row_count()) and visited_rows().
  void forget();

  std::int64_t touched_rows() const;
  std::int64_t dense_row_count() const { return dense_rows_; }
  std::span<const std::int32_t> visited_rows() const { return visited_; }

 private:
  void sort_by_row(std::span<const RowVisit> visits);
  void mark_touched();

  float* grad_VH_;
  std::int64_t width_;
  std::int64_t dense_rows_ = 0;           // rows [0, dense_rows_) are touched
  std::vector<std::uint8_t> is_visited_;  // [V]
  std::vector<std::int32_t> visited_;     // the rows marked in is_visited_

  // Scratch of sort(), kept between calls.
  std::vector<RowVisit> sorted_;
  std::vector<RowVisit> unsorted_;
  std::vector<std::int64_t> run_starts_;
  std::vector<std::uint8_t> run_overwrites_;  // whether the run is the first to touch its row
};

// The gradient of a weight of any type without a float32 [V, H]: row v = the sum of its visits, formed in a
// thread's float32 scratch and rounded to `type` once, as RowGradient would hold it. grad_VH is the caller's
// memory, without gaps and all zero; rows without visits are not written. All visits of a row must be in this
// one call. Memory: V bytes, three lists as long as `visits`, and a row per thread.
void write_row_gradients(const RowMatrix& hidden, std::span<const RowVisit> visits, std::int64_t rows,
                         const ParallelFor& parallel, RowType type, void* grad_VH);

}  // namespace routeopd::kernels
