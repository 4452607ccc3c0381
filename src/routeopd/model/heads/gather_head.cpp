//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/heads/gather_head.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/model/heads/head_common.h"

namespace routeopd::model {

namespace {

constexpr const char* kHead = "gather head";
constexpr std::int64_t kIdGrain = 64;  // about 30 microseconds of work

// Tokens whose head gradient is added together: their hidden states are then still in the last-level cache,
// and the list of their visits stays small however many ids a token has.
constexpr std::int64_t kBlockTokens = 2048;
constexpr std::int64_t kBlockVisits = std::int64_t{1} << 18;

void check_token_ids(const at::Tensor& hidden_TH, const at::Tensor& weight_VH, const TokenIds& token_ids) {
  check_head_inputs(kHead, hidden_TH, weight_VH);
  const auto& [offsets, ids] = token_ids;
  if (std::ssize(offsets) != hidden_TH.size(0) + 1 || offsets.front() != 0 ||
      offsets.back() != std::ssize(ids) || !std::is_sorted(offsets.begin(), offsets.end())) {
    throw UserError("{}: offsets must be {} numbers that ascend from 0 to the {} ids", kHead,
                    hidden_TH.size(0) + 1, ids.size());
  }
  const std::int64_t rows = weight_VH.size(0);
  const auto bad =
      std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) { return id < 0 || id >= rows; });
  if (bad != ids.end()) {
    const auto next = std::upper_bound(offsets.begin(), offsets.end(), bad - ids.begin());
    throw UserError("{}: token {} names id {}, but ids must lie in [0, {})", kHead,
                    next - offsets.begin() - 1, *bad, rows);
  }
}

std::size_t count_of(const TokenIds& token_ids, std::int64_t t) {
  const std::size_t at = static_cast<std::size_t>(t);
  return static_cast<std::size_t>(token_ids.offsets[at + 1] - token_ids.offsets[at]);
}

// The first token past `first` that does not fit the block which begins there.
std::int64_t block_end(const TokenIds& token_ids, std::int64_t first) {
  const std::int64_t* const offsets = token_ids.offsets.data();
  const std::int64_t tokens = std::ssize(token_ids.offsets) - 1;
  const std::int64_t* const most = offsets + std::min(first + kBlockTokens, tokens);
  const std::int64_t* const past = std::upper_bound(offsets + first, most + 1, offsets[first] + kBlockVisits);
  return std::max(first + 1, past - offsets - 1);
}

// Calls work(begin, end) on ranges of tokens that cover [first, last) and hold about equally many ids, one a
// thread.
template <class Work>
void parallel_tokens(const TokenIds& token_ids, std::int64_t first, std::int64_t last, const Work& work) {
  const std::int64_t* const offsets = token_ids.offsets.data();
  // Token t stands at offsets[t] + t, so that tokens without ids belong to one range, too.
  const auto place = [&](std::int64_t t) { return offsets[t] + t; };
  const auto token_at = [&](std::int64_t at) {
    std::int64_t low = first, high = last;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (place(middle) < at) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  };
  at::parallel_for(place(first), place(last), kIdGrain,
                   [&](std::int64_t begin, std::int64_t end) { work(token_at(begin), token_at(end)); });
}

// The loss of token t; writes its visits, row -1 for those that carry no gradient.
double visit_token(std::int64_t t, const TokenIds& token_ids, const TokenLoss& loss,
                   std::span<const float> logits, std::span<float> grad, kernels::RowVisit* visits) {
  if (logits.empty()) return 0.0;
  const double value = loss(t, logits, grad);
  const std::int32_t* const ids = token_ids.ids.data() + token_ids.offsets[static_cast<std::size_t>(t)];
  for (std::size_t i = 0; i < grad.size(); ++i) {
    visits[i] = {grad[i] != 0.0F ? ids[i] : -1, static_cast<std::int32_t>(t), grad[i]};
  }
  return value;
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

double step_with_aten(const at::Tensor& hidden_TH, const at::Tensor& weight_VH, const TokenIds& token_ids,
                      const TokenLoss& loss, at::Tensor& grad_hidden_TH, HeadGradient& gradient) {
  const at::Tensor logits = logits_with_aten(hidden_TH, weight_VH, token_ids).to(at::kCPU, at::kFloat);
  std::vector<float> grad;
  std::vector<kernels::RowVisit> visits(token_ids.ids.size());
  double total = 0.0;
  for (std::int64_t t = 0; t < hidden_TH.size(0); ++t) {
    const std::int64_t begin = token_ids.offsets[static_cast<std::size_t>(t)];
    grad.resize(count_of(token_ids, t));
    total += visit_token(t, token_ids, loss, {logits.const_data_ptr<float>() + begin, grad.size()}, grad,
                         visits.data() + begin);
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
  if (!use_highway(kHead, backend, hidden_TH, weight_VH))
    return logits_with_aten(hidden_TH, weight_VH, token_ids);
  const kernels::RowMatrix hidden = row_matrix(hidden_TH), weight = row_matrix(weight_VH);
  const auto& [offsets, ids] = token_ids;
  at::Tensor logits = at::empty({std::ssize(ids)}, at::kFloat);
  float* const out = logits.mutable_data_ptr<float>();
  parallel_tokens(token_ids, 0, hidden_TH.size(0), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t from = offsets[static_cast<std::size_t>(t)],
                         to = offsets[static_cast<std::size_t>(t) + 1];
      kernels::row_dots(hidden, t, weight, ids.data() + from, to - from,
                        offsets[static_cast<std::size_t>(end)] - to, out + from);
    }
  });
  return logits;
}

double gather_head_step(const at::Tensor& hidden_TH, const at::Tensor& weight_VH, const TokenIds& token_ids,
                        const TokenLoss& loss, at::Tensor& grad_hidden_TH, HeadGradient& gradient,
                        Backend backend) {
  const at::NoGradGuard no_grad;
  check_token_ids(hidden_TH, weight_VH, token_ids);
  check_head_gradients(kHead, hidden_TH, weight_VH, grad_hidden_TH, gradient);
  if (!use_highway(kHead, backend, hidden_TH, weight_VH)) {
    return step_with_aten(hidden_TH, weight_VH, token_ids, loss, grad_hidden_TH, gradient);
  }
  const kernels::RowMatrix hidden = row_matrix(hidden_TH), weight = row_matrix(weight_VH);
  const std::int64_t* const offsets = token_ids.offsets.data();
  const std::int64_t tokens = hidden_TH.size(0);
  float* const grad_hidden = grad_hidden_TH.mutable_data_ptr<float>();
  std::vector<double> losses(static_cast<std::size_t>(tokens));
  std::vector<kernels::RowVisit> visits;
  for (std::int64_t first = 0, last; first < tokens; first = last) {
    last = block_end(token_ids, first);
    visits.resize(static_cast<std::size_t>(offsets[last] - offsets[first]));
    parallel_tokens(token_ids, first, last, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> logits, grad;
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t count = offsets[t + 1] - offsets[t];
        logits.resize(static_cast<std::size_t>(count));
        grad.resize(logits.size());
        kernels::RowVisit* const token_visits = visits.data() + (offsets[t] - offsets[first]);
        kernels::row_dots(hidden, t, weight, token_ids.ids.data() + offsets[t], count,
                          offsets[end] - offsets[t + 1], logits.data());
        losses[static_cast<std::size_t>(t)] = visit_token(t, token_ids, loss, logits, grad, token_visits);
        kernels::sum_weight_rows(weight, token_visits, count, grad_hidden + t * weight.width);
      }
      kernels::flush_row_writes();
    });
    gradient.add_visits(hidden_TH, visits, Backend::kHighway);
  }
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

}  // namespace routeopd::model
