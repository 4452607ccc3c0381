// The gradient of a head's weight: one persistent dense tensor that knows which of its rows are not zero, so
// that neither a sparse step nor the clearing after it walks the whole tensor. Its methods are threaded
// inside, but not to be called from two threads at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>

#include "routeopd/kernels/row_gradient.h"
#include "routeopd/model/heads/head.h"

namespace routeopd::model {

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

  // Begins a dense contribution to rows [0, rows): see RowGradient::begin_dense().
  double begin_dense(std::int64_t rows);

  // Sets every touched row back to zero.
  void clear();

  std::int64_t touched_rows() const { return rows_.touched_rows(); }

  // Which rows were touched, and what the kernels add to; the latter of a float32 tensor on the CPU alone.
  kernels::RowGradient& rows() { return rows_; }

 private:
  at::Tensor grad_VH_;
  kernels::RowGradient rows_;
};

}  // namespace routeopd::model
