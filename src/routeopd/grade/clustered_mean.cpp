//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/clustered_mean.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/base/philox.h"

namespace routeopd::grade {
namespace {

struct Sums {
  double total = 0, count = 0;
  void add(const Sums& other) {
    total += other.total;
    count += other.count;
  }
};

}  // namespace

Interval clustered_mean(std::span<const double> values, std::span<const std::int32_t> cluster,
                        const Bootstrap& bootstrap) {
  ROUTEOPD_INVARIANT(values.size() == cluster.size());
  std::vector<Sums> clusters;
  Sums all;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<std::size_t>(cluster[i]);
    if (at >= clusters.size()) clusters.resize(at + 1);
    if (std::isnan(values[i])) continue;
    clusters[at].add({values[i], 1});
    all.add({values[i], 1});
  }
  std::erase_if(clusters, [](const Sums& sums) { return sums.count == 0; });
  const double none = std::nan("");
  if (clusters.empty()) return {.mean = none, .low = none, .high = none};
  std::vector<double> means;
  const std::uint64_t count = clusters.size();
  for (std::uint32_t draw = 0; draw < bootstrap.draws; ++draw) {
    Sums taken;
    for (std::uint64_t i = 0; i < count; ++i) {
      const StateAddress at{
          .step = bootstrap.first_suite, .prompt = draw, .position = static_cast<std::uint32_t>(i / 4)};
      const PhiloxBlock words = addressed_words(bootstrap.seed, Purpose::kBootstrap, at, 0);
      taken.add(clusters[(std::uint64_t{words[i % 4]} >> 8) * count >> 24]);
    }
    means.push_back(taken.total / taken.count);
  }
  std::sort(means.begin(), means.end());
  return {.mean = all.total / all.count,
          .low = quantile(means, (1 - bootstrap.level) / 2),
          .high = quantile(means, (1 + bootstrap.level) / 2)};
}

}  // namespace routeopd::grade
