// SPDX-License-Identifier: Apache-2.0
#include "routeopd/table/cells.h"

#include <gtest/gtest.h>

namespace routeopd::table {
namespace {

TEST(Cells, NumbersAreRoundedAndZeroHasNoSign) {
  EXPECT_EQ(percent(0.73164), "73.16");
  EXPECT_EQ(percent(std::nullopt), "–");
  EXPECT_EQ(points(-0.000004), "0.00");
  EXPECT_EQ(points(0.000004), "0.00");
  EXPECT_EQ(points(0.0109), "+1.09");
  EXPECT_EQ(number(-0.0004, 3), "0.000");
  EXPECT_EQ(number(-0.0006, 3), "-0.001");
  EXPECT_EQ(signed_number(std::nullopt, 1), "–");
  EXPECT_EQ(significant(0.000123456), "0.000123");
  EXPECT_EQ(interval(0.1, 0.2, 1), "[10.0, 20.0]");
  EXPECT_EQ(listed({"a"}), "a");
  EXPECT_EQ(listed({"a", "b", "c"}), "a, b and c");
}

}  // namespace
}  // namespace routeopd::table
