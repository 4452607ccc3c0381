// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/heads/pair_head.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/model/heads/head_common.h"

namespace routeopd::model {

namespace {

constexpr const char* kPairHead = "pair head";

// The checked pairs, in host memory.
struct HostPairs {
  at::Tensor source_TM, destination_TM;
  kernels::TokenPairs view;
};

HostPairs checked_pairs(const at::Tensor& hidden_TH, const at::Tensor& weight_VH, const at::Tensor& source_TM,
                        const at::Tensor& destination_TM) {
  check_head_inputs(kPairHead, hidden_TH, weight_VH);
  for (const at::Tensor& ids : {source_TM, destination_TM}) {
    if (!ids.defined() || ids.dim() != 2 || ids.scalar_type() != at::kInt ||
        ids.size(0) != hidden_TH.size(0) || ids.size(1) != source_TM.size(1)) {
      throw UserError(
          "{}: source_TM and destination_TM must be int32 of one shape [{}, M], one row per token", kPairHead,
          hidden_TH.size(0));
    }
  }
  HostPairs pairs{source_TM.to(at::kCPU).contiguous(), destination_TM.to(at::kCPU).contiguous(), {}};
  pairs.view = {.source_TM = pairs.source_TM.const_data_ptr<std::int32_t>(),
                .destination_TM = pairs.destination_TM.const_data_ptr<std::int32_t>(),
                .tokens = source_TM.size(0),
                .per_token = source_TM.size(1)};
  const std::int64_t rows = weight_VH.size(0);
  for (std::int64_t i = 0; i < source_TM.numel(); ++i) {
    const std::int64_t from = pairs.view.source_TM[i], to = pairs.view.destination_TM[i];
    if (from >= 0 && (from >= rows || to < 0 || to >= rows)) {
      throw UserError("{}: pair {} of token {} is ({}, {}), but ids must lie in [0, {})", kPairHead,
                      i % pairs.view.per_token, i / pairs.view.per_token, from, to, rows);
    }
  }
  return pairs;
}

at::Tensor log_odds_with_aten(const at::Tensor& hidden_TH, const at::Tensor& weight_VH,
                              const HostPairs& pairs) {
  const at::ScalarType type = accumulate_type(hidden_TH);
  const std::int64_t tokens = hidden_TH.size(0), per_token = pairs.view.per_token;
  at::Tensor log_odds_TM = at::zeros({tokens, per_token}, hidden_TH.options().dtype(type));
  if (per_token == 0) return log_odds_TM;
  const std::int64_t block = std::max<std::int64_t>(1, aten_block_rows(hidden_TH.size(1)) / per_token);
  for (std::int64_t first = 0; first < tokens; first += block) {
    const std::int64_t count = std::min(block, tokens - first);
    const at::Tensor source = pairs.source_TM.narrow(0, first, count).flatten().to(hidden_TH.device());
    const at::Tensor destination =
        pairs.destination_TM.narrow(0, first, count).flatten().to(hidden_TH.device());
    const at::Tensor missing = source.lt(0);
    const auto gather = [&](const at::Tensor& ids) {
      return weight_VH.index_select(0, ids.masked_fill(missing, 0)).to(type);
    };
    const at::Tensor difference = gather(destination).sub_(gather(source)).view({count, per_token, -1});
    const at::Tensor hidden = hidden_TH.narrow(0, first, count).to(type).unsqueeze(1);
    log_odds_TM.narrow(0, first, count)
        .copy_((difference * hidden).sum(-1).masked_fill_(missing.view({count, per_token}), 0));
  }
  return log_odds_TM;
}

double pair_step_with_aten(const at::Tensor& hidden_TH, const at::Tensor& weight_VH, const HostPairs& pairs,
                           const TokenLoss& loss, at::Tensor& grad_hidden_TH, HeadGradient& gradient) {
  const std::int64_t tokens = hidden_TH.size(0);
  const std::size_t per_token = static_cast<std::size_t>(pairs.view.per_token);
  const at::Tensor log_odds_TM =
      log_odds_with_aten(hidden_TH, weight_VH, pairs).to(at::TensorOptions(at::kFloat).device(at::kCPU));
  const float* const log_odds = log_odds_TM.const_data_ptr<float>();
  std::vector<float> grad(per_token);
  std::vector<kernels::RowVisit> visits(static_cast<std::size_t>(tokens) * 2 * per_token);
  double total = 0.0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    total += kernels::visit_pairs(t, pairs.view, loss, {log_odds + t * pairs.view.per_token, per_token}, grad,
                                  visits.data() + t * 2 * pairs.view.per_token);
  }
  std::erase_if(visits, [](const kernels::RowVisit& visit) { return visit.row < 0; });
  add_visits_with_aten(VisitDirection::kToTokens, weight_VH, visits, grad_hidden_TH.zero_());
  gradient.add_visits(hidden_TH, visits, Backend::kAten);
  return total;
}

}  // namespace

at::Tensor pair_log_odds(const at::Tensor& hidden_TH, const at::Tensor& weight_VH,
                         const at::Tensor& source_TM, const at::Tensor& destination_TM, Backend backend) {
  const at::NoGradGuard no_grad;
  const HostPairs pairs = checked_pairs(hidden_TH, weight_VH, source_TM, destination_TM);
  if (!use_highway(kPairHead, backend, hidden_TH, weight_VH))
    return log_odds_with_aten(hidden_TH, weight_VH, pairs);
  at::Tensor log_odds_TM = at::empty({pairs.view.tokens, pairs.view.per_token}, at::kFloat);
  kernels::pair_log_odds(row_matrix(hidden_TH), row_matrix(weight_VH), pairs.view, torch_threads(),
                         log_odds_TM.mutable_data_ptr<float>());
  return log_odds_TM;
}

double pair_head_step(const at::Tensor& hidden_TH, const at::Tensor& weight_VH, const at::Tensor& source_TM,
                      const at::Tensor& destination_TM, const TokenLoss& loss, at::Tensor& grad_hidden_TH,
                      HeadGradient& gradient, Backend backend) {
  const at::NoGradGuard no_grad;
  const HostPairs pairs = checked_pairs(hidden_TH, weight_VH, source_TM, destination_TM);
  check_head_gradients(kPairHead, hidden_TH, weight_VH, grad_hidden_TH, gradient);
  if (!use_highway(kPairHead, backend, hidden_TH, weight_VH)) {
    return pair_step_with_aten(hidden_TH, weight_VH, pairs, loss, grad_hidden_TH, gradient);
  }
  return kernels::pair_head_step(row_matrix(hidden_TH), row_matrix(weight_VH), pairs.view, loss,
                                 torch_threads(), grad_hidden_TH.mutable_data_ptr<float>(), gradient.rows());
}

}  // namespace routeopd::model
