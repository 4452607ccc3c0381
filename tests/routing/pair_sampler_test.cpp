// The two ways to draw from a marginal: a guide table for many draws, counting for few.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/pair_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace routeopd::routing {
namespace {

constexpr std::size_t kMany = 1000;  // draws, so that a guide table is made

// The smallest position whose running sum exceeds u times the total, in single precision.
std::size_t by_definition(const std::vector<float>& cumulative, float u) {
  const float wanted = u * cumulative.back();
  const auto above = [&](float sum) { return sum > wanted; };
  auto at = std::find_if(cumulative.begin(), cumulative.end(), above);
  if (at == cumulative.end()) at = std::find(cumulative.begin(), cumulative.end(), cumulative.back());
  return static_cast<std::size_t>(at - cumulative.begin());
}

// Around every step of the guide table u times its size rounds up, and the draw has to step back.
TEST(MarginalSampler, DrawsByGuideWhatItDrawsByCounting) {
  std::mt19937 random(12);
  std::exponential_distribution<float> weight;
  for (std::size_t n = 1; n <= 60; ++n) {
    for (const bool equal : {false, true}) {
      std::vector<float> cumulative;
      float sum = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const float drawn = weight(random);
        cumulative.push_back(sum += equal ? 0.7F : drawn > 1 ? drawn : 0.0F);  // weightless positions, too
      }
      if (sum == 0) continue;
      MarginalSampler few, many;
      few.begin(cumulative.data(), n, 1);
      many.begin(cumulative.data(), n, kMany);
      for (std::size_t step = 0; step <= n; ++step) {
        const float at = static_cast<float>(step) / static_cast<float>(n);
        for (const float u : {std::nextafter(at, -1.0F), at, std::nextafter(at, 2.0F)}) {
          if (u < 0 || u >= 1) continue;
          EXPECT_EQ(few.draw(u), by_definition(cumulative, u)) << n << " " << u;
          EXPECT_EQ(many.draw(u), by_definition(cumulative, u)) << n << " " << u;
        }
      }
    }
  }
}

}  // namespace
}  // namespace routeopd::routing
