// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/heads/head_gradient.h"

#include <ATen/core/grad_mode.h>

#include <utility>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/model/heads/head_common.h"

namespace routeopd::model {
namespace {

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat;
}

at::Tensor checked_gradient(at::Tensor grad_VH) {
  if (!grad_VH.defined() || grad_VH.dim() != 2 || !grad_VH.is_contiguous() ||
      (grad_VH.scalar_type() != at::kFloat && grad_VH.scalar_type() != at::kDouble)) {
    throw UserError("head gradient: expected a contiguous float32 or float64 matrix");
  }
  return grad_VH;
}

}  // namespace

HeadGradient::HeadGradient(at::Tensor grad_VH)
    : grad_VH_(checked_gradient(std::move(grad_VH))),
      rows_(is_plain(grad_VH_) ? grad_VH_.mutable_data_ptr<float>() : nullptr, grad_VH_.size(0),
            grad_VH_.size(1)) {}

void HeadGradient::add_visits(const at::Tensor& hidden_TH, std::span<const kernels::RowVisit> visits,
                              Backend backend) {
  check_head_inputs("head gradient", hidden_TH, grad_VH_);
  const bool highway = use_highway("head gradient", backend, hidden_TH, grad_VH_);
  const std::int64_t tokens = hidden_TH.size(0);
  const std::int64_t rows = grad_VH_.size(0);
  for (const kernels::RowVisit& visit : visits) {
    if (visit.row >= rows || visit.token < 0 || visit.token >= tokens) {
      throw UserError("head gradient: a visit names row {} of {} and token {} of {}", visit.row, rows,
                      visit.token, tokens);
    }
  }
  if (highway) {
    rows_.add(row_matrix(hidden_TH), visits, torch_threads());
  } else {
    const at::NoGradGuard no_grad;
    add_visits_with_aten(VisitDirection::kToRows, hidden_TH, rows_.sort(visits), grad_VH_);
  }
}

double HeadGradient::begin_dense(std::int64_t rows) {
  if (rows < 0 || rows > grad_VH_.size(0)) {
    throw UserError("head gradient: {} dense rows do not fit its {} rows", rows, grad_VH_.size(0));
  }
  return rows_.begin_dense(rows);
}

void HeadGradient::clear() {
  if (is_plain(grad_VH_)) {
    rows_.clear(torch_threads());
    return;
  }
  const at::NoGradGuard no_grad;
  grad_VH_.narrow(0, 0, rows_.dense_row_count()).zero_();
  const std::vector<std::int32_t> visited(rows_.visited_rows().begin(), rows_.visited_rows().end());
  if (!visited.empty()) grad_VH_.index_fill_(0, at::tensor(visited, at::kLong).to(grad_VH_.device()), 0);
  rows_.forget();
}

}  // namespace routeopd::model
