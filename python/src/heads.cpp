// The operators of the heads: log-odds of pairs, logits at given ids, and their backward.
//
// Shapes: T tokens, M pairs per token, G ids per token, H hidden size, V rows of the weight.
// SPDX-License-Identifier: Apache-2.0
#include <tuple>

#include "routeopd/kernels/head_backward.h"
#include "routeopd/kernels/row_gradient.h"
#include "routeopd/kernels/sparse_heads.h"
#include "tensors.h"

namespace routeopd::python {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 31;  // tokens and ids are numbered in int32

struct Head {
  kernels::RowMatrix hidden_TH, weight_VH;
  std::int64_t tokens = 0, rows = 0;

  Head(const Tensor& hidden, const Tensor& weight)
      : hidden_TH(row_matrix(hidden, "hidden")),
        weight_VH(row_matrix(weight, "weight")),
        tokens(hidden.size(0)),
        rows(weight.size(0)) {
    if (hidden_TH.width != weight_VH.width)
      throw UserError("weight: expected {} columns as hidden has, got {}", hidden_TH.width, weight_VH.width);
    if (rows < 1 || weight_VH.width < 1)
      throw UserError("weight: expected at least a row and a column, got {} x {}", rows, weight_VH.width);
    if (tokens >= kMostRows || rows >= kMostRows)
      throw UserError("hidden and weight: expected fewer than 2^31 rows each");
  }
};

// Columns of ids, each in [-1, rows) where `padded`, else in [0, rows).
std::int64_t columns_of(const Tensor& ids, const char* name) {
  if (ids.dim() != 2) throw UserError("{}: expected a matrix of ids, one row per token", name);
  return ids.size(1);
}

void check_ids(const std::int32_t* ids, std::int64_t count, std::int64_t rows, const char* name) {
  for (std::int64_t i = 0; i < count; ++i)
    if (ids[i] >= rows)
      throw UserError("{}: expected ids below {}, the rows of the weight, got {}", name, rows, ids[i]);
}

kernels::TokenPairs pairs_of(const Head& head, const Tensor& source, const Tensor& destination) {
  const std::int64_t m = columns_of(source, "source");
  const kernels::TokenPairs pairs{int32_data(source, "source", head.tokens, m),
                                  int32_data(destination, "destination", head.tokens, m), head.tokens, m};
  check_ids(pairs.source_TM, head.tokens * m, head.rows, "source");
  for (std::int64_t i = 0; i < head.tokens * m; ++i) {
    const std::int32_t id = pairs.destination_TM[i];
    if (pairs.source_TM[i] >= 0 && (id < 0 || id >= head.rows))
      throw UserError("destination: expected ids from 0 to {} where a source is given, got {}", head.rows - 1,
                      id);
  }
  return pairs;
}

Tensor pair_log_odds(Tensor hidden, Tensor weight, Tensor source, Tensor destination) {
  const Head head(hidden, weight);
  const kernels::TokenPairs pairs = pairs_of(head, source, destination);
  Tensor odds_TM = empty_floats({pairs.tokens, pairs.per_token});
  kernels::pair_log_odds(head.hidden_TH, head.weight_VH, pairs, torch_threads(), data_of<float>(odds_TM));
  return odds_TM;
}

// The gradients of hidden states, in float32, and of the weight, dense and in its own type. What is not
// needed is an empty tensor.
std::tuple<Tensor, Tensor> gradients(const Head& head, const Tensor& weight,
                                     const std::vector<kernels::RowVisit>& visits, bool of_hidden,
                                     bool of_weight) {
  const kernels::ParallelFor parallel = torch_threads();
  Tensor grad_hidden = empty_floats({of_hidden ? head.tokens : 0, head.weight_VH.width});
  if (of_hidden)
    kernels::hidden_gradient(head.weight_VH, visits, head.tokens, parallel, data_of<float>(grad_hidden));
  const std::array<std::int64_t, 2> shape{of_weight ? head.rows : 0, head.weight_VH.width};
  Tensor grad_weight = torch::stable::new_zeros(weight, {shape.data(), shape.size()});
  if (of_weight && head.weight_VH.type == kernels::RowType::kFloat32) {
    kernels::RowGradient rows(data_of<float>(grad_weight), head.rows, head.weight_VH.width);
    kernels::add_visits(head.hidden_TH, visits, head.tokens, parallel, rows);
  } else if (of_weight) {
    kernels::write_row_gradients(head.hidden_TH, visits, head.rows, parallel, head.weight_VH.type,
                                 grad_weight.mutable_data_ptr());
  }
  return {grad_hidden, grad_weight};
}

std::tuple<Tensor, Tensor> pair_log_odds_backward(Tensor grad, Tensor hidden, Tensor weight, Tensor source,
                                                  Tensor destination, bool of_hidden, bool of_weight) {
  const Head head(hidden, weight);
  const kernels::TokenPairs pairs = pairs_of(head, source, destination);
  const float* const grad_TM = float_data(grad, "grad", pairs.tokens, pairs.per_token);
  return gradients(head, weight, kernels::pair_visits(pairs, grad_TM), of_hidden, of_weight);
}

// The same with the weight's gradient added to a float32 tensor that the caller keeps, touched rows alone: in
// a training loop of one's own a dense gradient per micro-batch would cost more than all of this.
Tensor add_pair_gradients(Tensor grad, Tensor hidden, Tensor weight, Tensor source, Tensor destination,
                          Tensor grad_weight) {
  const Head head(hidden, weight);
  const kernels::TokenPairs pairs = pairs_of(head, source, destination);
  const float* const grad_TM = float_data(grad, "grad", pairs.tokens, pairs.per_token);
  float_data(grad_weight, "grad_weight", head.rows, head.weight_VH.width);
  const std::vector<kernels::RowVisit> visits = kernels::pair_visits(pairs, grad_TM);
  const kernels::ParallelFor parallel = torch_threads();
  Tensor grad_hidden = empty_floats({head.tokens, head.weight_VH.width});
  kernels::hidden_gradient(head.weight_VH, visits, head.tokens, parallel, data_of<float>(grad_hidden));
  kernels::RowGradient rows(data_of<float>(grad_weight), head.rows, head.weight_VH.width);
  rows.begin_dense(head.rows);  // no row counts as zero
  kernels::add_visits(head.hidden_TH, visits, head.tokens, parallel, rows);
  return grad_hidden;
}

Tensor gather_logits(Tensor hidden, Tensor weight, Tensor ids) {
  const Head head(hidden, weight);
  const std::int64_t columns = columns_of(ids, "ids");
  const std::int32_t* const ids_TG = int32_data(ids, "ids", head.tokens, columns);
  check_ids(ids_TG, head.tokens * columns, head.rows, "ids");
  // Without the pads: lists of each token's own length.
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> given;
  offsets.reserve(static_cast<std::size_t>(head.tokens) + 1);
  given.reserve(static_cast<std::size_t>(head.tokens * columns));
  for (std::int64_t t = 0; t < head.tokens; ++t) {
    for (std::int64_t g = 0; g < columns; ++g)
      if (ids_TG[t * columns + g] >= 0) given.push_back(ids_TG[t * columns + g]);
    offsets.push_back(std::ssize(given));
  }
  Tensor logits_TG = empty_floats({head.tokens, columns});
  float* const to = data_of<float>(logits_TG);
  if (std::ssize(given) == head.tokens * columns) {
    kernels::gather_logits(head.hidden_TH, head.weight_VH, {offsets, given}, torch_threads(), to);
    return logits_TG;
  }
  std::vector<float> logits(given.size());
  kernels::gather_logits(head.hidden_TH, head.weight_VH, {offsets, given}, torch_threads(), logits.data());
  std::size_t next = 0;
  for (std::int64_t i = 0; i < head.tokens * columns; ++i) to[i] = ids_TG[i] >= 0 ? logits[next++] : 0.0F;
  return logits_TG;
}

std::tuple<Tensor, Tensor> gather_logits_backward(Tensor grad, Tensor hidden, Tensor weight, Tensor ids,
                                                  bool of_hidden, bool of_weight) {
  const Head head(hidden, weight);
  const std::int64_t columns = columns_of(ids, "ids");
  const std::int32_t* const ids_TG = int32_data(ids, "ids", head.tokens, columns);
  check_ids(ids_TG, head.tokens * columns, head.rows, "ids");
  const float* const grad_TG = float_data(grad, "grad", head.tokens, columns);
  return gradients(head, weight, kernels::gather_visits(ids_TG, grad_TG, head.tokens, columns), of_hidden,
                   of_weight);
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(routeopd, library) {
  library.def("pair_log_odds(Tensor hidden, Tensor weight, Tensor source, Tensor destination) -> Tensor");
  library.def(
      "pair_log_odds_backward(Tensor grad, Tensor hidden, Tensor weight, Tensor source, Tensor destination, "
      "bool of_hidden, bool of_weight) -> (Tensor, Tensor)");
  library.def(
      "add_pair_gradients(Tensor grad, Tensor hidden, Tensor weight, Tensor source, Tensor destination, "
      "Tensor(a!) grad_weight) -> Tensor");
  library.def("gather_logits(Tensor hidden, Tensor weight, Tensor ids) -> Tensor");
  library.def(
      "gather_logits_backward(Tensor grad, Tensor hidden, Tensor weight, Tensor ids, bool of_hidden, "
      "bool of_weight) -> (Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(routeopd, CPU, library) {
  library.impl("pair_log_odds", TORCH_BOX(&Marked<&pair_log_odds>::call));
  library.impl("pair_log_odds_backward", TORCH_BOX(&Marked<&pair_log_odds_backward>::call));
  library.impl("add_pair_gradients", TORCH_BOX(&Marked<&add_pair_gradients>::call));
  library.impl("gather_logits", TORCH_BOX(&Marked<&gather_logits>::call));
  library.impl("gather_logits_backward", TORCH_BOX(&Marked<&gather_logits_backward>::call));
}

}  // namespace routeopd::python
