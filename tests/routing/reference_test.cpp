// What the reference itself says at its edges, by hand; route_states_test.cpp holds the fast kernel to it.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/reference.h"

#include <gtest/gtest.h>

#include <limits>

#include "routeopd/routing/reference_sampling.h"

namespace routeopd::routing::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(ReferenceSupport, LeavesOutWhatTheStudentCannotReach) {
  const Values student = {1, -kInfinity, 0, 2}, teacher = {0, 3, 2, 1};
  EXPECT_EQ(support(student, teacher, 2), (Ids{0, 2, 3}));
  EXPECT_EQ(support(student, teacher, 4), (Ids{0, 2, 3}));
}

// A draw whose uniform is the running sum itself goes to the next position: [0, u) is the first one's.
TEST(ReferencePairs, AUniformOnAStepOfTheDistributionBelongsToTheNextPosition) {
  constexpr std::uint64_t kSeed = 3;
  const StateAddress address{.step = 1, .prompt = 2, .response = 3, .position = 4};
  const PhiloxBlock words = addressed_words(kSeed, Purpose::kRoutePairs, address, 0);
  const auto u = static_cast<double>(unit_uniform(words[0])), v = static_cast<double>(unit_uniform(words[1]));
  ASSERT_TRUE(u > 0 && v > 0);
  Transport state;
  state.routed = true;
  state.ids = {10, 11, 12, 13};
  state.excess = {u, 1 - u, 0, 0};  // these sums are exact
  state.deficit = {0, 0, v, 1 - v};
  state.bounded = {0, 0, 0, 0};
  const std::vector<Pair> pairs = sample_pairs(state, {}, {.m = 1}, kSeed, address);
  ASSERT_EQ(pairs.size(), 1U);
  EXPECT_EQ(pairs[0].source, 11);
  EXPECT_EQ(pairs[0].destination, 13);
}

}  // namespace
}  // namespace routeopd::routing::reference
