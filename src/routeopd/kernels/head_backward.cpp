// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/head_backward.h"

#include <algorithm>

namespace routeopd::kernels {
namespace {

constexpr std::int64_t kRowsPerThread = 64;    // visited rows: about 30 microseconds of work
constexpr std::int64_t kTokensInCache = 2048;  // as in sparse_heads.cpp

}  // namespace

std::vector<RowVisit> pair_visits(const TokenPairs& pairs, const float* grad_TM) {
  std::vector<RowVisit> visits;
  const std::int64_t m = pairs.per_token;
  visits.reserve(static_cast<std::size_t>(2 * pairs.tokens * m));
  for (std::int64_t i = 0; i < pairs.tokens * m; ++i) {
    const bool visited = pairs.source_TM[i] >= 0 && grad_TM[i] != 0.0F;
    const auto token = static_cast<std::int32_t>(i / m);
    visits.push_back({visited ? pairs.source_TM[i] : -1, token, -grad_TM[i]});
    visits.push_back({visited ? pairs.destination_TM[i] : -1, token, grad_TM[i]});
  }
  return visits;
}

std::vector<RowVisit> gather_visits(const std::int32_t* ids_TG, const float* grad_TG, std::int64_t tokens,
                                    std::int64_t per_token) {
  std::vector<RowVisit> visits;
  visits.reserve(static_cast<std::size_t>(tokens * per_token));
  for (std::int64_t i = 0; i < tokens * per_token; ++i) {
    const bool visited = ids_TG[i] >= 0 && grad_TG[i] != 0.0F;
    visits.push_back({visited ? ids_TG[i] : -1, static_cast<std::int32_t>(i / per_token), grad_TG[i]});
  }
  return visits;
}

void hidden_gradient(const RowMatrix& weight, std::span<const RowVisit> visits, std::int64_t tokens,
                     const ParallelFor& parallel, float* grad_hidden_TH) {
  if (tokens == 0) return;
  const std::int64_t per_token = std::ssize(visits) / tokens;
  const std::int64_t grain = std::max<std::int64_t>(1, kRowsPerThread / std::max<std::int64_t>(1, per_token));
  parallel(0, tokens, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t)
      sum_weight_rows(weight, visits.data() + t * per_token, per_token, grad_hidden_TH + t * weight.width);
    flush_row_writes();
  });
}

void add_visits(const RowMatrix& hidden, std::span<const RowVisit> visits, std::int64_t tokens,
                const ParallelFor& parallel, RowGradient& grad_weight) {
  if (tokens == 0) return;
  const std::size_t per_token = visits.size() / static_cast<std::size_t>(tokens);
  for (std::int64_t first = 0; first < tokens; first += kTokensInCache) {
    const std::int64_t count = std::min(kTokensInCache, tokens - first);
    grad_weight.add(hidden,
                    visits.subspan(static_cast<std::size_t>(first) * per_token,
                                   static_cast<std::size_t>(count) * per_token),
                    parallel);
  }
}

}  // namespace routeopd::kernels
