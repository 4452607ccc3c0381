//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/heads/pair_head.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/model/heads/head_common.h"

namespace routeopd::model {

namespace {

constexpr const char* kHead = "pair head";
constexpr std::int64_t kTokenGrain = 16;  // about 30 microseconds of work

// Tokens whose head gradient is added together: their hidden states are then still in the last-level cache.
constexpr std::int64_t kBlockTokens = 2048;

// The checked pairs, in host memory.
struct Pairs {
  at::Tensor source_TM, destination_TM;
  const std::int32_t* source;
  const std::int32_t* destination;
  std::int64_t per_token;
};

Pairs checked_pairs(const at::Tensor& hidden_TH, const at::Tensor& weight_VH, const at::Tensor& source_TM,
                    const at::Tensor& destination_TM) {
  check_head_inputs(kHead, hidden_TH, weight_VH);
  for (const at::Tensor& ids : {source_TM, destination_TM}) {
    if (!ids.defined() || ids.dim() != 2 || ids.scalar_type() != at::kInt ||
        ids.size(0) != hidden_TH.size(0) || ids.size(1) != source_TM.size(1)) {
      throw UserError("{}: source_TM and destination_TM must be int32 of one shape [{}, M], a row a token",
                      kHead, hidden_TH.size(0));
    }
  }
  Pairs pairs;
  pairs.source_TM = source_TM.to(at::kCPU).contiguous();
  pairs.destination_TM = destination_TM.to(at::kCPU).contiguous();
  pairs.source = pairs.source_TM.const_data_ptr<std::int32_t>();
  pairs.destination = pairs.destination_TM.const_data_ptr<std::int32_t>();
  pairs.per_token = source_TM.size(1);
  const std::int64_t rows = weight_VH.size(0);
  for (std::int64_t i = 0; i < source_TM.numel(); ++i) {
    const std::int64_t from = pairs.source[i], to = pairs.destination[i];
    if (from >= 0 && (from >= rows || to < 0 || to >= rows)) {
      throw UserError("{}: pair {} of token {} is ({}, {}), but ids must lie in [0, {})", kHead,
                      i % pairs.per_token, i / pairs.per_token, from, to, rows);
    }
  }
  return pairs;
}

// The loss of token t; writes its 2M visits, row -1 for those that carry no gradient.
double visit_token(std::int64_t t, const Pairs& pairs, const TokenLoss& loss, std::span<const float> log_odds,
                   std::span<float> grad, kernels::RowVisit* visits) {
  const std::int32_t* const source = pairs.source + t * pairs.per_token;
  const std::int32_t* const destination = pairs.destination + t * pairs.per_token;
  const bool any = std::any_of(source, source + pairs.per_token, [](std::int32_t id) { return id >= 0; });
  const double value = any ? loss(t, log_odds, grad) : 0.0;
  const std::int32_t token = static_cast<std::int32_t>(t);
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const bool visited = any && source[i] >= 0 && grad[i] != 0.0F;
    *visits++ = {visited ? source[i] : -1, token, -grad[i]};
    *visits++ = {visited ? destination[i] : -1, token, grad[i]};
  }
  return value;
}

at::Tensor log_odds_with_aten(const at::Tensor& hidden_TH, const at::Tensor& weight_VH, const Pairs& pairs) {
  const at::ScalarType type = accumulate_type(hidden_TH);
  const std::int64_t tokens = hidden_TH.size(0), per_token = pairs.per_token;
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

double step_with_aten(const at::Tensor& hidden_TH, const at::Tensor& weight_VH, const Pairs& pairs,
                      const TokenLoss& loss, at::Tensor& grad_hidden_TH, HeadGradient& gradient) {
  const std::int64_t tokens = hidden_TH.size(0);
  const std::size_t per_token = static_cast<std::size_t>(pairs.per_token);
  const at::Tensor log_odds_TM =
      log_odds_with_aten(hidden_TH, weight_VH, pairs).to(at::TensorOptions(at::kFloat).device(at::kCPU));
  const float* const log_odds = log_odds_TM.const_data_ptr<float>();
  std::vector<float> grad(per_token);
  std::vector<kernels::RowVisit> visits(static_cast<std::size_t>(tokens) * 2 * per_token);
  double total = 0.0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    total += visit_token(t, pairs, loss, {log_odds + t * pairs.per_token, per_token}, grad,
                         visits.data() + t * 2 * pairs.per_token);
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
  const Pairs pairs = checked_pairs(hidden_TH, weight_VH, source_TM, destination_TM);
  if (!use_highway(kHead, backend, hidden_TH, weight_VH))
    return log_odds_with_aten(hidden_TH, weight_VH, pairs);
  const kernels::RowMatrix hidden = row_matrix(hidden_TH), weight = row_matrix(weight_VH);
  const std::int64_t tokens = hidden_TH.size(0), per_token = pairs.per_token;
  at::Tensor log_odds_TM = at::empty({tokens, per_token}, at::kFloat);
  float* const log_odds = log_odds_TM.mutable_data_ptr<float>();
  at::parallel_for(0, tokens, kTokenGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t at = t * per_token;
      kernels::pair_dots(hidden, t, weight, pairs.source + at, pairs.destination + at, per_token,
                         (end - t - 1) * per_token, log_odds + at);
    }
  });
  return log_odds_TM;
}

double pair_head_step(const at::Tensor& hidden_TH, const at::Tensor& weight_VH, const at::Tensor& source_TM,
                      const at::Tensor& destination_TM, const TokenLoss& loss, at::Tensor& grad_hidden_TH,
                      HeadGradient& gradient, Backend backend) {
  const at::NoGradGuard no_grad;
  const Pairs pairs = checked_pairs(hidden_TH, weight_VH, source_TM, destination_TM);
  check_head_gradients(kHead, hidden_TH, weight_VH, grad_hidden_TH, gradient);
  if (!use_highway(kHead, backend, hidden_TH, weight_VH)) {
    return step_with_aten(hidden_TH, weight_VH, pairs, loss, grad_hidden_TH, gradient);
  }
  const kernels::RowMatrix hidden = row_matrix(hidden_TH), weight = row_matrix(weight_VH);
  const std::int64_t tokens = hidden_TH.size(0), per_token = pairs.per_token;
  float* const grad_hidden = grad_hidden_TH.mutable_data_ptr<float>();
  std::vector<double> losses(static_cast<std::size_t>(tokens));
  std::vector<kernels::RowVisit> visits(
      static_cast<std::size_t>(std::min(tokens, kBlockTokens) * 2 * per_token));
  for (std::int64_t first = 0; first < tokens; first += kBlockTokens) {
    const std::int64_t last = std::min(first + kBlockTokens, tokens);
    at::parallel_for(first, last, kTokenGrain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> log_odds(static_cast<std::size_t>(per_token)), grad(log_odds.size());
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t at = t * per_token;
        kernels::RowVisit* const token_visits = visits.data() + (t - first) * 2 * per_token;
        kernels::pair_dots(hidden, t, weight, pairs.source + at, pairs.destination + at, per_token,
                           (end - t - 1) * per_token, log_odds.data());
        losses[static_cast<std::size_t>(t)] = visit_token(t, pairs, loss, log_odds, grad, token_visits);
        kernels::sum_weight_rows(weight, token_visits, 2 * per_token, grad_hidden + t * weight.width);
      }
      kernels::flush_row_writes();
    });
    gradient.add_visits(hidden_TH,
                        std::span(visits).first(static_cast<std::size_t>((last - first) * 2 * per_token)),
                        Backend::kHighway);
  }
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

}  // namespace routeopd::model
