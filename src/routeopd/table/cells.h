// Numbers as cells of tables and as parts of sentences. A value that is not there is a dash.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace routeopd::table {

inline constexpr const char* kDash = "–";

// 0.7316 as 73.16 (percent).
std::string percent(std::optional<double> fraction, int digits = 2);

// A change of percentages, in points: with its sign, and zero without one, also where -0.001 is rounded to
// it.
std::string points(double fraction, int digits = 2);

// A number as it is; signed_number has a plus before one that is positive.
std::string number(std::optional<double> value, int digits);
std::string signed_number(std::optional<double> value, int digits);

// Three significant digits: 0.000123.
std::string significant(std::optional<double> value);

// "[71.00, 74.00]" of fractions, in percent.
std::string interval(double low, double high, int digits = 2);

// "a, b and c".
std::string listed(const std::vector<std::string>& names);

}  // namespace routeopd::table
