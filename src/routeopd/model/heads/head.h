// What the language-model heads share. A head turns the learner's last hidden states into the few (or many) numbers
// that a loss needs at each token; the loss answers with its gradient on those numbers; the head carries it back to
// the hidden states and to the rows of its weight. Which numbers, is the only difference:
//
//   pair head    log-odds z_b - z_a of m pairs           2m rows of the weight a token
//   gather head  logits at up to 2k given ids            2k rows
//   dense head   logits of the whole vocabulary          all rows, in chunks of tokens
//
// Shapes: T tokens, M pairs a token, H hidden size, V rows of the weight (padding included), R <= V real ids.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <span>

namespace routeopd::model {

// Which implementation runs. kAuto: the Highway kernel for CPU tensors, plain ATen operations elsewhere.
enum class Backend { kAuto, kAten, kHighway };

// The loss of token t as a function of the values its head computed. Writes d loss / d value to `grad` (every element)
// and returns the loss, both already divided by the batch's denominator. `grad` may alias `values`. Called for
// different tokens from several threads at once.
using TokenLoss = std::function<double(std::int64_t t, std::span<const float> values, std::span<float> grad)>;

// A contribution coefficient * hidden[token] to one row of the head's gradient.
struct RowVisit {
  std::int32_t row;
  std::int32_t token;
  float coefficient;
};

// The gradient of a head's weight: one persistent dense buffer that knows which of its rows are not zero, so that
// neither a sparse step nor the clearing after it walks the whole buffer (933 MB for 151,936 x 1,536).
class HeadGradient {
 public:
  // `grad_VH`: float32 (float64 is accepted by the ATen paths), contiguous, all zero.
  explicit HeadGradient(at::Tensor grad_VH);

  // The dense gradient. Rows that were never touched are zero.
  const at::Tensor& tensor() const { return grad_VH_; }

  // Adds every visit into its row, rows in any order, the visits of one row in the order given: bitwise the same
  // result for any number of threads. `hidden_TH` is float32 or bfloat16; products are accumulated in float32.
  void add_visits(const at::Tensor& hidden_TH, std::span<const RowVisit> visits, Backend backend = Backend::kAuto);

  // Adds grad_rows_RV^T-style dense contributions: returns the scale (0 or 1) by which the caller's GEMM must multiply
  // what is in rows [0, rows) before it adds; marks them touched.
  double begin_dense(std::int64_t rows);

  // Sets every touched row back to zero.
  void clear();

  std::int64_t touched_rows() const;
};

}  // namespace routeopd::model
