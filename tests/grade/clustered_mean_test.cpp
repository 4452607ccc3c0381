// Intervals over clusters.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "routeopd/base/philox.h"

namespace routeopd::grade {
namespace {

double normal(std::uint32_t i) {  // by Box and Muller
  const auto words = addressed_words(9, Purpose::kProbe, {.position = i}, 0);
  const double u = (static_cast<double>(words[0]) + 0.5) * 0x1p-32,
               v = static_cast<double>(words[1]) * 0x1p-32;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v);
}

// All that varies lies between clusters: the interval must be that of the clusters, four times as wide as
// that of the sixteen times as many values.
TEST(ClusteredMean, IsAsWideAsItsClustersSay) {
  constexpr std::int32_t kClusters = 100, kEach = 16;
  std::vector<double> values;
  std::vector<std::int32_t> cluster, alone;
  double sum = 0, squares = 0;
  for (std::int32_t c = 0; c < kClusters; ++c) {
    const double value = normal(static_cast<std::uint32_t>(c));
    sum += value;
    squares += value * value;
    for (std::int32_t i = 0; i < kEach; ++i) {
      alone.push_back(static_cast<std::int32_t>(values.size()));
      values.push_back(value);
      cluster.push_back(c);
    }
  }
  const double mean = sum / kClusters, error = std::sqrt((squares / kClusters - mean * mean) / kClusters);
  const Interval interval = clustered_mean(values, cluster, {});
  EXPECT_NEAR(interval.mean, mean, 1e-12);
  EXPECT_NEAR((interval.high - interval.low) / (2 * 1.96 * error), 1, 0.05);
  const Interval narrow = clustered_mean(values, alone, {});
  EXPECT_NEAR((interval.high - interval.low) / (narrow.high - narrow.low), 4, 0.2);
}

TEST(ClusteredMean, LeavesOutWhatIsNotKnown) {
  const std::vector<double> values = {1, NAN, 3, NAN};
  const std::vector<std::int32_t> cluster = {0, 0, 2, 3};
  const Interval interval = clustered_mean(values, cluster, {});
  EXPECT_EQ(interval.mean, 2);
  EXPECT_EQ(interval.low, 1);
  EXPECT_EQ(interval.high, 3);
  const std::vector<double> nothing = {NAN};
  EXPECT_TRUE(std::isnan(clustered_mean(nothing, std::vector<std::int32_t>{0}, {}).mean));
}

}  // namespace
}  // namespace routeopd::grade
