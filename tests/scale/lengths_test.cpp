// Lengths of responses against sums over the distribution itself.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/scale/lengths.h"

#include <gtest/gtest.h>

#include <cmath>

namespace routeopd::scale {
namespace {

TEST(Lengths, AllAreAlikeWithoutAMean) {
  for (const double mean : {0.0, 24.0, 99.0}) {
    const Lengths lengths(mean, 24, 0.7);
    EXPECT_EQ(lengths.mean(), 24);
    EXPECT_EQ(lengths.mean_square(), 24 * 24);
    EXPECT_EQ(lengths.reach(24), 1);
    EXPECT_EQ(lengths.reach(24.5), 0);
    EXPECT_EQ(lengths.longest_of(1), 24);
  }
}

// E[L] and E[L^2] are integrals of P(L >= t) and 2 t P(L >= t).
TEST(Lengths, MomentsAreThoseOfTheDistribution) {
  for (const double mean : {100.0, 2054.6, 9000.0}) {
    const Lengths lengths(mean, 16384, 0.7);
    double first = 0, second = 0;
    constexpr double kWidth = 0.25;
    for (double t = kWidth / 2; t < 16384; t += kWidth) {
      first += kWidth * lengths.reach(t);
      second += kWidth * 2 * t * lengths.reach(t);
    }
    EXPECT_NEAR(first / mean, 1, 1e-6);
    EXPECT_NEAR(lengths.mean_square() / second, 1, 1e-6);
  }
}

TEST(Lengths, TheLongestOfManyIsTheirQuantile) {
  const Lengths lengths(2000, 1e9, 0.7);  // hardly cut
  for (const double count : {9.0, 99.0, 2047.0})
    EXPECT_NEAR(lengths.reach(lengths.longest_of(count)) * (count + 1), 1, 1e-6);
  EXPECT_NEAR(lengths.longest_of(99) / (2000 * std::exp(-0.245 + 0.7 * 2.3263478740408408)), 1, 1e-6);
  EXPECT_EQ(Lengths(2000, 4000, 0.7).longest_of(1e6), 4000) << "no more than is allowed";
}

}  // namespace
}  // namespace routeopd::scale
