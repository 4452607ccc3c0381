// What readers of directories take for a number.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "routeopd/report/tolerant_files.h"

namespace routeopd::report {
namespace {

TEST(TolerantFiles, HugeNumbersAreNone) {
  const auto number = [](double value) { return number_at(Json{{"x", value}}, {"x"}); };
  EXPECT_EQ(number(1e15), 1e15);
  EXPECT_EQ(number(-1e15), -1e15);
  for (const double value : {1.1e15, -1.1e15, 1e308, -1e308, HUGE_VAL, static_cast<double>(NAN)})
    EXPECT_FALSE(number(value).has_value()) << value;
  const auto whole = [](const Json& value) { return whole_at(Json{{"x", value}}, "x"); };
  EXPECT_EQ(whole(0), 0);
  EXPECT_EQ(whole(kMaxWhole), 9007199254740992);
  for (const Json& value : {Json(kMaxWhole + 1), Json(INT64_MAX), Json(UINT64_MAX), Json(-1), Json(1.0)})
    EXPECT_FALSE(whole(value).has_value()) << value;
}

TEST(TolerantFiles, APathStaysBelowItsDirectory) {
  EXPECT_TRUE(stays_inside("runs/a..b/eval"));
  for (const char* path : {"", "/etc", "..", "runs/../../x", "a/.."})
    EXPECT_FALSE(stays_inside(path)) << path;
}

}  // namespace
}  // namespace routeopd::report
