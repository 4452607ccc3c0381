// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/pair_sampler.h"

#include <algorithm>
#include <limits>

namespace routeopd::routing {
namespace {

// Up to this many draws, counting for each is cheaper than making a guide table.
constexpr std::size_t kCountedDraws = 8;

// How many of the ascending cumulative[0, n) are at most x. A loop that compilers vectorise; a binary search
// loses more to mispredicted branches.
std::size_t count_at_most(const float* cumulative, std::size_t n, float x) {
  std::int32_t count = 0;
  for (std::size_t i = 0; i < n; ++i) count += cumulative[i] <= x ? 1 : 0;
  return static_cast<std::size_t>(count);
}

}  // namespace

void accumulate_marginals(UnionState& state) {
  // Two independent chains of additions, so that their latencies overlap.
  double excess = 0;
  double deficit = 0;
  const float* from_excess = state.excess.data();
  const float* from_deficit = state.deficit.data();
  float* to_excess = state.cumulative_excess.data();
  float* to_deficit = state.cumulative_deficit.data();
  for (std::size_t i = 0; i < state.n; ++i) {
    to_excess[i] = static_cast<float>(excess += static_cast<double>(from_excess[i]));
    to_deficit[i] = static_cast<float>(deficit += static_cast<double>(from_deficit[i]));
  }
}

void MarginalSampler::begin(const float* cumulative, std::size_t n, std::size_t draws) {
  cumulative_ = cumulative;
  n_ = n;
  total_ = cumulative[n - 1];

  guide_.clear();
  if (draws <= kCountedDraws) return;
  guide_.resize(n);
  std::size_t position = 0;
  for (std::size_t g = 0; g < n; ++g) {
    const float wanted = static_cast<float>(g) / static_cast<float>(n) * total_;
    while (position + 1 < n && cumulative[position] <= wanted) ++position;
    guide_[g] = static_cast<std::uint32_t>(position);
  }
}

std::size_t MarginalSampler::draw(float u) const {
  const float wanted = u * total_;
  std::size_t position = 0;
  if (guide_.empty()) {
    position = count_at_most(cumulative_, n_, wanted);
  } else {
    const auto bucket = static_cast<std::size_t>(u * static_cast<float>(n_));
    position = guide_[std::min(bucket, n_ - 1)];
    while (position > 0 && cumulative_[position - 1] > wanted) --position;  // u * n may have rounded up
    while (position < n_ && cumulative_[position] <= wanted) ++position;
  }
  if (position == n_) {  // u * total rounded up to the total: the last position with weight
    do --position;
    while (position > 0 && cumulative_[position] == cumulative_[position - 1]);
  }
  return position;
}

}  // namespace routeopd::routing
