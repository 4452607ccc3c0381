// One token from one row: greedy, temperature, top-k and top-p, against plain arithmetic.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

namespace routeopd::engine {
namespace {

const std::vector<float> kRow = {1.0F, 3.0F, -2.0F, 3.0F, 0.5F, -std::numeric_limits<float>::infinity()};

// How often each id comes out over an even grid of uniforms.
std::map<std::int32_t, double> shares(const Decoding& decoding) {
  constexpr int kGrid = 1 << 16;
  std::map<std::int32_t, double> counts;
  for (int i = 0; i < kGrid; ++i)
    counts[sample_row(kRow, decoding, static_cast<float>(i) / kGrid)] += 1.0 / kGrid;
  return counts;
}

double weight(std::size_t id, double temperature) {
  return std::exp(static_cast<double>(kRow[id]) / temperature);
}

TEST(Sampler, FollowsTheDistributionAtAnyTemperature) {
  for (const double temperature : {1.0, 0.7, 2.5}) {
    double total = 0;
    for (std::size_t id = 0; id < kRow.size(); ++id) total += weight(id, temperature);
    auto got = shares({.temperature = temperature});
    EXPECT_EQ(got.count(5), 0U) << "an id at -inf was drawn";
    for (std::size_t id = 0; id < kRow.size(); ++id)
      EXPECT_NEAR(got[static_cast<std::int32_t>(id)], weight(id, temperature) / total, 1e-4) << id;
  }
}

TEST(Sampler, GreedyTakesTheLowestOfEquals) {
  for (const float uniform : {0.0F, 0.5F, 0.999F})
    EXPECT_EQ(sample_row(kRow, {.temperature = 0}, uniform), 1);
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesIt) {
  // Shares at temperature 1: 1 and 3 have 0.44 each, 0 has 0.06, 4 has 0.036.
  EXPECT_EQ(shares({.top_p = 0.4}).size(), 1U);
  EXPECT_EQ(shares({.top_p = 0.4}).begin()->first, 1);
  EXPECT_EQ(shares({.top_p = 0.6}).size(), 2U);
  EXPECT_EQ(shares({.top_p = 0.93}).size(), 3U);
  EXPECT_NEAR(shares({.top_p = 0.6})[3], 0.5, 1e-4) << "what is kept is not rescaled";
}

TEST(Sampler, TopKKeepsKAndComesBeforeTopP) {
  EXPECT_EQ(shares({.top_k = 3}).size(), 3U);
  EXPECT_EQ(shares({.top_p = 0.9, .top_k = 2}).size(), 2U);
  EXPECT_EQ(shares({.top_p = 0.5, .top_k = 2}).size(), 1U) << "top-p counts within the top-k";
}

TEST(Sampler, RefusesRowsWithoutADistribution) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(sample_row(std::vector<float>{0, nan}, {}, 0.5F), -1);
  EXPECT_EQ(sample_row(std::vector<float>{0, inf}, {}, 0.5F), -1);
  EXPECT_EQ(sample_row(std::vector<float>{-inf, -inf}, {}, 0.5F), -1);
}

}  // namespace
}  // namespace routeopd::engine
