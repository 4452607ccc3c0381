// One token from one row: greedy, temperature, top-k and top-p, against plain arithmetic.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "routeopd/base/philox.h"

namespace routeopd::engine {
namespace {

const std::vector<float> kRow = {1.0F, 3.0F, -2.0F, 3.0F, 0.5F, -std::numeric_limits<float>::infinity()};

constexpr std::int64_t kTile = 4;  // several tiles even in a short row

// A row with its tiles' sums, as the head gives it.
struct HeadRow {
  std::vector<float> logits;
  std::vector<kernels::LogSum> sums;
  std::int32_t best = -1;

  explicit HeadRow(std::vector<float> row, std::int64_t width = kTile)
      : logits(std::move(row)), width_(width) {
    kernels::LogSum total;
    for (std::int64_t first = 0; first < std::ssize(logits); first += width) {
      const auto count = std::min(width, std::ssize(logits) - first);
      total.add(
          sums.emplace_back(kernels::LogSum::of(logits.data() + first, static_cast<std::size_t>(count))));
    }
    if (std::isfinite(total.log()))
      best = static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  LogitRow view() const { return {logits, sums.data(), 1, width_, best}; }

 private:
  std::int64_t width_;
};

std::int32_t sample_row(const std::vector<float>& logits, const Decoding& decoding, float uniform) {
  const HeadRow row(logits);
  const std::int32_t id = engine::sample_row(row.view(), decoding, uniform);
  EXPECT_EQ(id, reference_sample(logits, decoding, uniform));
  return id;
}

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

TEST(Sampler, ATinyTemperatureIsGreedyAndATieReachesTopP) {
  for (const double temperature : {1e-39, 1e-300, 1e-20}) {
    EXPECT_EQ(engine::sample_row(HeadRow(kRow).view(), {.temperature = temperature, .top_k = 1}, 0.9F), 1);
    EXPECT_EQ(engine::sample_row(HeadRow({1, 2, 7, 3}).view(), {.temperature = temperature}, 0.9F), 2);
  }
  EXPECT_EQ(engine::sample_row(HeadRow({2, 2}).view(), {.top_p = 0.5}, 0.9F), 0)
      << "one of two equals is half";
}

TEST(Sampler, TopKKeepsKAndComesBeforeTopP) {
  EXPECT_EQ(shares({.top_k = 3}).size(), 3U);
  EXPECT_EQ(shares({.top_p = 0.9, .top_k = 2}).size(), 2U);
  EXPECT_EQ(shares({.top_p = 0.5, .top_k = 2}).size(), 1U) << "top-p counts within the top-k";
}

std::vector<float> random_row(std::size_t size, double deviation, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, static_cast<float>(deviation));
  std::vector<float> row(size);
  for (float& logit : row) logit = normal(random);
  return row;
}

const std::vector<Decoding> kDecodings = {{},
                                          {.temperature = 0.7, .top_p = 0.95},
                                          {.temperature = 1.4},
                                          {.top_p = 0.5},
                                          {.top_p = 0.999},
                                          {.top_k = 20},
                                          {.temperature = 0.9, .top_p = 0.8, .top_k = 50},
                                          {.temperature = 0.01}};

// Flat and peaked rows: the fast path and the plain one part only where the number lies on a step of the
// distribution function, which a number a little larger or smaller tells.
TEST(Sampler, FastEqualsPlain) {
  for (const double deviation : {0.01, 1.0, 8.0}) {
    const HeadRow row(random_row(5000, deviation, 3), 1024);
    for (const Decoding& decoding : kDecodings) {
      for (int i = 0; i < 200; ++i) {
        const float uniform = (static_cast<float>(i) + 0.37F) / 200;
        const std::int32_t fast = engine::sample_row(row.view(), decoding, uniform);
        if (fast == reference_sample(row.logits, decoding, uniform)) continue;
        EXPECT_TRUE(fast == reference_sample(row.logits, decoding, uniform + 2e-6F) ||
                    fast == reference_sample(row.logits, decoding, uniform - 2e-6F))
            << "deviation " << deviation << " temperature " << decoding.temperature << " top-p "
            << decoding.top_p;
      }
    }
  }
}

// Pearson's statistic of addressed numbers against the exact distribution, over ids expected at least 20
// times; its mean is the degrees of freedom and its variance twice that, so five deviations are a chance of
// less than 1e-5.
TEST(Sampler, FrequenciesPassAChiSquareTest) {
  constexpr int kDraws = 200000;
  const HeadRow row(random_row(300, 2.0, 5), 64);
  for (const Decoding& decoding :
       {Decoding{}, Decoding{.top_p = 0.9}, Decoding{.temperature = 0.7, .top_p = 0.95}}) {
    std::vector<double> expected(row.logits.size()), drawn(row.logits.size());
    std::vector<std::size_t> order(row.logits.size());
    double total = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      order[i] = i;
      total += expected[i] = std::exp(static_cast<double>(row.logits[i]) / decoding.temperature);
    }
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return expected[a] > expected[b]; });
    double kept = 0;
    for (const std::size_t i : order) {
      const bool keep = kept < decoding.top_p * total;
      kept += keep ? expected[i] : 0;
      if (!keep) expected[i] = 0;
    }
    for (std::uint32_t i = 0; i < kDraws; ++i) {
      const float uniform = unit_uniform(addressed_words(11, Purpose::kDecode, {.position = i}, 0)[0]);
      ++drawn[static_cast<std::size_t>(engine::sample_row(row.view(), decoding, uniform))];
    }
    double statistic = 0, cells = 0, rest_expected = 0, rest_drawn = 0;
    const auto add = [&](double got, double wanted) {
      statistic += (got - wanted) * (got - wanted) / wanted;
      ++cells;
    };
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double wanted = kDraws * expected[i] / kept;
      if (wanted == 0) {
        EXPECT_EQ(drawn[i], 0) << "an id outside top-p was drawn";
      } else if (wanted >= 20) {
        add(drawn[i], wanted);
      } else {
        rest_expected += wanted;
        rest_drawn += drawn[i];
      }
    }
    if (rest_expected >= 20) add(rest_drawn, rest_expected);
    ASSERT_GT(cells, 20);
    EXPECT_LT(std::abs(statistic - (cells - 1)), 5 * std::sqrt(2 * (cells - 1)))
        << "top-p " << decoding.top_p;
  }
}

// In a batch the sums of other rows lie between these, `stride` apart. The tiles are so far from each other
// that only the right one's exponent brings all weights into the range of a double.
TEST(Sampler, ReadsTheSumsOfItsOwnTilesAlone) {
  constexpr std::int64_t kStride = 3;
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  for (const HeadRow& alone : {HeadRow({-2000, -2001, -2002, -2003, 0, 1, 0.5F, 0.2F, -3000, -3001}),
                               HeadRow({-5000, kNone, kNone, kNone, -3000, -3001, -3000, -3002, kNone})}) {
    std::vector<kernels::LogSum> sums(alone.sums.size() * kStride, {.scaled = 1, .exponent = 1e4});
    for (std::size_t tile = 0; tile < alone.sums.size(); ++tile) sums[tile * kStride] = alone.sums[tile];
    for (int i = 0; i < 100; ++i) {
      const float uniform = static_cast<float>(i) / 100;
      const std::int32_t id =
          engine::sample_row({alone.logits, sums.data(), kStride, kTile, alone.best}, {}, uniform);
      EXPECT_EQ(id, engine::sample_row(alone.view(), {}, uniform));
      EXPECT_TRUE(id >= 4 && id < 8) << id;
    }
  }
}

TEST(Sampler, RefusesRowsWithoutADistribution) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(sample_row(std::vector<float>{0, nan}, {}, 0.5F), -1);
  EXPECT_EQ(sample_row(std::vector<float>{0, inf}, {}, 0.5F), -1);
  EXPECT_EQ(sample_row(std::vector<float>{-inf, -inf}, {}, 0.5F), -1);
}

}  // namespace
}  // namespace routeopd::engine
