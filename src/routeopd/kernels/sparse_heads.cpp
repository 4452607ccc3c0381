// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/sparse_heads.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace routeopd::kernels {
namespace {

constexpr std::int64_t kTokenGrain = 16;  // tokens of two pairs: about 30 microseconds of work
constexpr std::int64_t kIdGrain = 64;     // the same in ids

// Tokens whose head gradient is added together: their hidden states are then still in the last-level cache,
// and the list of their visits stays small however many ids a token has.
constexpr std::int64_t kBlockTokens = 2048;
constexpr std::int64_t kBlockVisits = std::int64_t{1} << 18;

// The first token past `first` that does not fit the block which begins there.
std::int64_t block_end(const TokenIds& ids, std::int64_t first) {
  const std::int64_t* const offsets = ids.offsets.data();
  const std::int64_t* const most = offsets + std::min(first + kBlockTokens, ids.tokens());
  const std::int64_t* const past = std::upper_bound(offsets + first, most + 1, offsets[first] + kBlockVisits);
  return std::max(first + 1, past - offsets - 1);
}

// Calls work(begin, end) on ranges of tokens that cover [first, last) and hold about equally many ids, one
// range per thread.
template <class Work>
void over_tokens(const TokenIds& ids, std::int64_t first, std::int64_t last, const ParallelFor& parallel,
                 const Work& work) {
  const std::int64_t* const offsets = ids.offsets.data();
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
  parallel(place(first), place(last), kIdGrain,
           [&](std::int64_t begin, std::int64_t end) { work(token_at(begin), token_at(end)); });
}

}  // namespace

double visit_pairs(std::int64_t t, const TokenPairs& pairs, const TokenLoss& loss,
                   std::span<const float> log_odds, std::span<float> grad, RowVisit* visits) {
  const std::int32_t* const source = pairs.source_TM + t * pairs.per_token;
  const std::int32_t* const destination = pairs.destination_TM + t * pairs.per_token;
  const bool any = std::any_of(source, source + pairs.per_token, [](std::int32_t id) { return id >= 0; });
  const double value = any ? loss(t, log_odds, grad) : 0.0;
  const auto token = static_cast<std::int32_t>(t);
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const bool visited = any && source[i] >= 0 && grad[i] != 0.0F;
    *visits++ = {visited ? source[i] : -1, token, -grad[i]};
    *visits++ = {visited ? destination[i] : -1, token, grad[i]};
  }
  return value;
}

double visit_ids(std::int64_t t, const TokenIds& ids, const TokenLoss& loss, std::span<const float> logits,
                 std::span<float> grad, RowVisit* visits) {
  if (logits.empty()) return 0.0;
  const double value = loss(t, logits, grad);
  const std::int32_t* const own = ids.ids.data() + ids.offsets[static_cast<std::size_t>(t)];
  for (std::size_t i = 0; i < grad.size(); ++i) {
    visits[i] = {grad[i] != 0.0F ? own[i] : -1, static_cast<std::int32_t>(t), grad[i]};
  }
  return value;
}

void pair_log_odds(const RowMatrix& hidden, const RowMatrix& weight, const TokenPairs& pairs,
                   const ParallelFor& parallel, float* log_odds_TM) {
  const std::int64_t m = pairs.per_token;
  parallel(0, pairs.tokens, kTokenGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      pair_dots(hidden, t, weight, pairs.source_TM + t * m, pairs.destination_TM + t * m, m,
                (end - t - 1) * m, log_odds_TM + t * m);
    }
  });
}

double pair_head_step(const RowMatrix& hidden, const RowMatrix& weight, const TokenPairs& pairs,
                      const TokenLoss& loss, const ParallelFor& parallel, float* grad_hidden_TH,
                      RowGradient& grad_weight) {
  const std::int64_t tokens = pairs.tokens, m = pairs.per_token;
  std::vector<double> losses(static_cast<std::size_t>(tokens));
  std::vector<RowVisit> visits(static_cast<std::size_t>(std::min(tokens, kBlockTokens) * 2 * m));
  for (std::int64_t first = 0; first < tokens; first += kBlockTokens) {
    const std::int64_t last = std::min(first + kBlockTokens, tokens);
    parallel(first, last, kTokenGrain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> log_odds(static_cast<std::size_t>(m)), grad(log_odds.size());
      for (std::int64_t t = begin; t < end; ++t) {
        RowVisit* const own = visits.data() + (t - first) * 2 * m;
        pair_dots(hidden, t, weight, pairs.source_TM + t * m, pairs.destination_TM + t * m, m,
                  (end - t - 1) * m, log_odds.data());
        losses[static_cast<std::size_t>(t)] = visit_pairs(t, pairs, loss, log_odds, grad, own);
        sum_weight_rows(weight, own, 2 * m, grad_hidden_TH + t * weight.width);
      }
      flush_row_writes();
    });
    grad_weight.add(hidden, std::span(visits).first(static_cast<std::size_t>((last - first) * 2 * m)),
                    parallel);
  }
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

void gather_logits(const RowMatrix& hidden, const RowMatrix& weight, const TokenIds& ids,
                   const ParallelFor& parallel, float* logits) {
  const std::int64_t* const offsets = ids.offsets.data();
  over_tokens(ids, 0, ids.tokens(), parallel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      row_dots(hidden, t, weight, ids.ids.data() + offsets[t], offsets[t + 1] - offsets[t],
               offsets[end] - offsets[t + 1], logits + offsets[t]);
    }
  });
}

double gather_head_step(const RowMatrix& hidden, const RowMatrix& weight, const TokenIds& ids,
                        const TokenLoss& loss, const ParallelFor& parallel, float* grad_hidden_TH,
                        RowGradient& grad_weight) {
  const std::int64_t* const offsets = ids.offsets.data();
  const std::int64_t tokens = ids.tokens();
  std::vector<double> losses(static_cast<std::size_t>(tokens));
  std::vector<RowVisit> visits;
  for (std::int64_t first = 0, last; first < tokens; first = last) {
    last = block_end(ids, first);
    visits.resize(static_cast<std::size_t>(offsets[last] - offsets[first]));
    over_tokens(ids, first, last, parallel, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> logits, grad;
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t count = offsets[t + 1] - offsets[t];
        logits.resize(static_cast<std::size_t>(count));
        grad.resize(logits.size());
        RowVisit* const own = visits.data() + (offsets[t] - offsets[first]);
        row_dots(hidden, t, weight, ids.ids.data() + offsets[t], count, offsets[end] - offsets[t + 1],
                 logits.data());
        losses[static_cast<std::size_t>(t)] = visit_ids(t, ids, loss, logits, grad, own);
        sum_weight_rows(weight, own, count, grad_hidden_TH + t * weight.width);
      }
      flush_row_writes();
    });
    grad_weight.add(hidden, visits, parallel);
  }
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

}  // namespace routeopd::kernels
