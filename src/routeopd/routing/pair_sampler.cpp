// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/pair_sampler.h"

#include <algorithm>
#include <limits>

#include "routeopd/routing/union_kernel.h"

namespace routeopd::routing {
namespace {

// Up to this many draws a vector scan each is cheaper than making a guide table.
constexpr std::size_t kScanDraws = 8;

}  // namespace

void MarginalSampler::begin(const float* weights, std::size_t n, float* cumulative, std::size_t draws) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    sum += static_cast<double>(weights[i]);
    cumulative[i] = static_cast<float>(sum);
  }
  std::fill_n(cumulative + n, kUnionPad, std::numeric_limits<float>::infinity());
  cumulative_ = cumulative;
  n_ = n;
  total_ = cumulative[n - 1];

  guide_.clear();
  if (draws <= kScanDraws) return;
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
