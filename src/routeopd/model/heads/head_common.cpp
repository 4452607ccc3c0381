// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/heads/head_common.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>

#include "routeopd/base/error.h"

namespace routeopd::model {

namespace {

std::string shape_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

void check_matrix(std::string_view head, std::string_view name, const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.dim() != 2) {
    throw UserError("{}: {} must be a matrix, got {}", head, name,
                    tensor.defined() ? "shape " + shape_of(tensor) : std::string("an undefined tensor"));
  }
  if (!tensor.is_contiguous()) throw UserError("{}: {} must be contiguous; try .contiguous()", head, name);
}

bool is_narrow(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16;
}

}  // namespace

void check_head_inputs(std::string_view head, const at::Tensor& hidden_TH, const at::Tensor& weight_VH) {
  check_matrix(head, "hidden_TH", hidden_TH);
  check_matrix(head, "weight_VH", weight_VH);
  if (hidden_TH.size(1) != weight_VH.size(1) || weight_VH.size(1) < 1 || weight_VH.size(0) < 1) {
    throw UserError("{}: hidden_TH and weight_VH must have the same hidden size, got shapes {} and {}", head,
                    shape_of(hidden_TH), shape_of(weight_VH));
  }
  const bool both_double = hidden_TH.scalar_type() == at::kDouble && weight_VH.scalar_type() == at::kDouble;
  if (!both_double && !(is_narrow(hidden_TH) && is_narrow(weight_VH))) {
    throw UserError(
        "{}: hidden_TH and weight_VH must be float32 or bfloat16 (or both float64), got {} and {}", head,
        at::toString(hidden_TH.scalar_type()), at::toString(weight_VH.scalar_type()));
  }
  if (hidden_TH.device() != weight_VH.device()) {
    throw UserError("{}: hidden_TH and weight_VH must be on one device, got {} and {}", head,
                    hidden_TH.device().str(), weight_VH.device().str());
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (hidden_TH.size(0) > kMost || weight_VH.size(0) > kMost) {
    throw UserError("{}: at most {} tokens and rows fit 32-bit ids, got {} and {}", head, kMost,
                    hidden_TH.size(0), weight_VH.size(0));
  }
}

void check_head_gradients(std::string_view head, const at::Tensor& hidden_TH, const at::Tensor& weight_VH,
                          const at::Tensor& grad_hidden_TH, const HeadGradient& gradient) {
  const at::ScalarType expected = accumulate_type(hidden_TH);
  check_matrix(head, "grad_hidden_TH", grad_hidden_TH);
  if (grad_hidden_TH.sizes() != hidden_TH.sizes() || grad_hidden_TH.scalar_type() != expected ||
      grad_hidden_TH.device() != hidden_TH.device()) {
    throw UserError("{}: grad_hidden_TH must be {} of shape {} on {}, got {} of shape {} on {}", head,
                    at::toString(expected), shape_of(hidden_TH), hidden_TH.device().str(),
                    at::toString(grad_hidden_TH.scalar_type()), shape_of(grad_hidden_TH),
                    grad_hidden_TH.device().str());
  }
  const at::Tensor& grad_VH = gradient.tensor();
  if (grad_VH.sizes() != weight_VH.sizes() || grad_VH.scalar_type() != expected ||
      grad_VH.device() != weight_VH.device()) {
    throw UserError("{}: the head gradient must be {} of shape {} on {}, got {} of shape {} on {}", head,
                    at::toString(expected), shape_of(weight_VH), weight_VH.device().str(),
                    at::toString(grad_VH.scalar_type()), shape_of(grad_VH), grad_VH.device().str());
  }
}

at::ScalarType accumulate_type(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

bool use_highway(std::string_view head, Backend backend, const at::Tensor& hidden_TH,
                 const at::Tensor& weight_VH) {
  const bool possible =
      hidden_TH.is_cpu() && weight_VH.is_cpu() && is_narrow(hidden_TH) && is_narrow(weight_VH);
  if (backend == Backend::kHighway && !possible) {
    throw UserError(
        "{}: the Highway backend needs CPU tensors in float32 or bfloat16, got {} and {} on {}; try kAuto",
        head, at::toString(hidden_TH.scalar_type()), at::toString(weight_VH.scalar_type()),
        hidden_TH.device().str());
  }
  return possible && backend != Backend::kAten;
}

kernels::RowMatrix row_matrix(const at::Tensor& tensor) {
  return {.data = tensor.const_data_ptr(),
          .width = tensor.size(1),
          .stride = tensor.size(1),
          .type = tensor.scalar_type() == at::kBFloat16 ? kernels::RowType::kBFloat16
                                                        : kernels::RowType::kFloat32};
}

kernels::ParallelFor torch_threads() {
  return {.threads = at::get_num_threads(),
          .run = [](std::int64_t begin, std::int64_t end, std::int64_t grain,
                    const kernels::ParallelFor::Work& work) { at::parallel_for(begin, end, grain, work); }};
}

std::int64_t aten_block_rows(std::int64_t width) {
  constexpr std::int64_t kElements = std::int64_t{1} << 21;
  return std::max<std::int64_t>(1, kElements / width);
}

void add_visits_with_aten(VisitDirection direction, const at::Tensor& matrix,
                          std::span<const kernels::RowVisit> visits, const at::Tensor& target) {
  const std::size_t block = static_cast<std::size_t>(aten_block_rows(matrix.size(1)));
  const at::Device device = target.device();
  for (; !visits.empty(); visits = visits.subspan(std::min(block, visits.size()))) {
    const std::int64_t count = static_cast<std::int64_t>(std::min(block, visits.size()));
    at::Tensor rows = at::empty({count}, at::kInt), tokens = at::empty({count}, at::kInt);
    at::Tensor coefficients = at::empty({count}, at::kFloat);
    for (std::int64_t i = 0; i < count; ++i) {
      const kernels::RowVisit& visit = visits[static_cast<std::size_t>(i)];
      rows.mutable_data_ptr<std::int32_t>()[i] = visit.row;
      tokens.mutable_data_ptr<std::int32_t>()[i] = visit.token;
      coefficients.mutable_data_ptr<float>()[i] = visit.coefficient;
    }
    const bool to_rows = direction == VisitDirection::kToRows;
    const at::Tensor to = (to_rows ? rows : tokens).to(device), from = (to_rows ? tokens : rows).to(device);
    at::Tensor scaled = matrix.index_select(0, from).to(target.scalar_type());
    target.index_add_(0, to, scaled.mul_(coefficients.to(device, target.scalar_type()).unsqueeze(1)));
  }
}

}  // namespace routeopd::model
