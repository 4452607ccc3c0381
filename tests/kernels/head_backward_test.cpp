// The visits that a gradient on the values of the sparse heads becomes, by hand; tests/model holds their sums
// to autograd.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/head_backward.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace routeopd::kernels {
namespace {

using Visits = std::vector<std::tuple<std::int32_t, std::int32_t, float>>;  // row, token, coefficient

Visits listed(const std::vector<RowVisit>& visits) {
  Visits all;
  for (const RowVisit& visit : visits) all.emplace_back(visit.row, visit.token, visit.coefficient);
  return all;
}

TEST(HeadBackward, EveryIdOfATokenIsAVisit) {
  const std::vector<std::int32_t> ids = {4, 0, -1, 7, 5, 6};
  const std::vector<float> grad = {1, 2, 3, 4, 0, -6};
  EXPECT_EQ(listed(gather_visits(ids.data(), grad.data(), 3, 2)),
            (Visits{{4, 0, 1}, {0, 0, 2}, {-1, 1, 3}, {7, 1, 4}, {-1, 2, 0}, {6, 2, -6}}));
}

TEST(HeadBackward, APairVisitsItsSourceAgainstItsDestination) {
  const std::vector<std::int32_t> source = {0, 3, -1, 5}, destination = {1, 0, -1, 6};
  const std::vector<float> grad = {2, -1, 3, 0};
  const TokenPairs pairs{
      .source_TM = source.data(), .destination_TM = destination.data(), .tokens = 2, .per_token = 2};
  EXPECT_EQ(
      listed(pair_visits(pairs, grad.data())),
      (Visits{
          {0, 0, -2}, {1, 0, 2}, {3, 0, 1}, {0, 0, -1}, {-1, 1, -3}, {-1, 1, 3}, {-1, 1, 0}, {-1, 1, 0}}));
}

}  // namespace
}  // namespace routeopd::kernels
