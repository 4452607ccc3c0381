// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/heads/gather_head.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/model/heads/head_common.h"

namespace routeopd::model {

namespace {

constexpr const char* kGatherHead = "gather head";

void check_token_ids(const at::Tensor& hidden_TH, const at::Tensor& weight_VH, const TokenIds& token_ids) {
  check_head_inputs(kGatherHead, hidden_TH, weight_VH);
  const auto& [offsets, ids] = token_ids;
  if (std::ssize(offsets) != hidden_TH.size(0) + 1 || offsets.front() != 0 ||
      offsets.back() != std::ssize(ids) || !std::is_sorted(offsets.begin(), offsets.end())) {
    throw UserError("{}: offsets must be {} numbers that ascend from 0 to the {} ids", kGatherHead,
                    hidden_TH.size(0) + 1, ids.size());
  }
  const std::int64_t rows = weight_VH.size(0);
  const auto bad =
      std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) { return id < 0 || id >= rows; });
  if (bad != ids.end()) {
    const auto next = std::upper_bound(offsets.begin(), offsets.end(), bad - ids.begin());
    throw UserError("{}: token {} names id {}, but ids must lie in [0, {})", kGatherHead,
                    next - offsets.begin() - 1, *bad, rows);
  }
}

std::size_t count_of(const TokenIds& token_ids, std::int64_t t) {
  const std::size_t at = static_cast<std::size_t>(t);
  return static_cast<std::size_t>(token_ids.offsets[at + 1] - token_ids.offsets[at]);
}

at::Tensor logits_with_aten(const at::Tensor& hidden_TH, const at::Tensor& weight_VH,
                            const TokenIds& token_ids) {
  const at::ScalarType type = accumulate_type(hidden_TH);
  const std::int64_t total = std::ssize(token_ids.ids);
  at::Tensor token = at::empty({total}, at::kInt), id = at::empty({total}, at::kInt);
  std::copy(token_ids.ids.begin(), token_ids.ids.end(), id.mutable_data_ptr<std::int32_t>());
  for (std::int64_t t = 0; t < hidden_TH.size(0); ++t) {
    const std::int64_t begin = token_ids.offsets[static_cast<std::size_t>(t)];
    std::fill_n(token.mutable_data_ptr<std::int32_t>() + begin, count_of(token_ids, t),
                static_cast<std::int32_t>(t));
  }
  at::Tensor logits = at::empty({total}, hidden_TH.options().dtype(type));
  const std::int64_t block = aten_block_rows(hidden_TH.size(1));
  for (std::int64_t first = 0; first < total; first += block) {
    const std::int64_t count = std::min(block, total - first);
    const auto gather = [&](const at::Tensor& matrix, const at::Tensor& index) {
      return matrix.index_select(0, index.narrow(0, first, count).to(matrix.device())).to(type);
    };
    logits.narrow(0, first, count).copy_(gather(weight_VH, id).mul_(gather(hidden_TH, token)).sum(-1));
  }
  return logits;
}

double gather_step_with_aten(const at::Tensor& hidden_TH, const at::Tensor& weight_VH,
                             const TokenIds& token_ids, const TokenLoss& loss, at::Tensor& grad_hidden_TH,
                             HeadGradient& gradient) {
  const at::Tensor logits = logits_with_aten(hidden_TH, weight_VH, token_ids).to(at::kCPU, at::kFloat);
  std::vector<float> grad;
  std::vector<kernels::RowVisit> visits(token_ids.ids.size());
  double total = 0.0;
  for (std::int64_t t = 0; t < hidden_TH.size(0); ++t) {
    const std::int64_t begin = token_ids.offsets[static_cast<std::size_t>(t)];
    grad.resize(count_of(token_ids, t));
    total += kernels::visit_ids(t, token_ids, loss, {logits.const_data_ptr<float>() + begin, grad.size()},
                                grad, visits.data() + begin);
  }
  std::erase_if(visits, [](const kernels::RowVisit& visit) { return visit.row < 0; });
  add_visits_with_aten(VisitDirection::kToTokens, weight_VH, visits, grad_hidden_TH.zero_());
  gradient.add_visits(hidden_TH, visits, Backend::kAten);
  return total;
}

}  // namespace

at::Tensor gather_logits(const at::Tensor& hidden_TH, const at::Tensor& weight_VH, const TokenIds& token_ids,
                         Backend backend) {
  const at::NoGradGuard no_grad;
  check_token_ids(hidden_TH, weight_VH, token_ids);
  if (!use_highway(kGatherHead, backend, hidden_TH, weight_VH))
    return logits_with_aten(hidden_TH, weight_VH, token_ids);
  at::Tensor logits = at::empty({std::ssize(token_ids.ids)}, at::kFloat);
  kernels::gather_logits(row_matrix(hidden_TH), row_matrix(weight_VH), token_ids, torch_threads(),
                         logits.mutable_data_ptr<float>());
  return logits;
}

double gather_head_step(const at::Tensor& hidden_TH, const at::Tensor& weight_VH, const TokenIds& token_ids,
                        const TokenLoss& loss, at::Tensor& grad_hidden_TH, HeadGradient& gradient,
                        Backend backend) {
  const at::NoGradGuard no_grad;
  check_token_ids(hidden_TH, weight_VH, token_ids);
  check_head_gradients(kGatherHead, hidden_TH, weight_VH, grad_hidden_TH, gradient);
  if (!use_highway(kGatherHead, backend, hidden_TH, weight_VH)) {
    return gather_step_with_aten(hidden_TH, weight_VH, token_ids, loss, grad_hidden_TH, gradient);
  }
  return kernels::gather_head_step(row_matrix(hidden_TH), row_matrix(weight_VH), token_ids, loss,
                                   torch_threads(), grad_hidden_TH.mutable_data_ptr<float>(),
                                   gradient.rows());
}

}  // namespace routeopd::model
