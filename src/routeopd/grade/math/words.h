// The words of answers: units, functions, numbers, separators.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace routeopd::grade::math {

// "cm", "hours", "dollars": what a number may carry and a grader does not look at. Lower or upper case.
bool is_unit(std::string_view word);

// Words after a number that are more than a unit: with a digit, or such as "or fewer", "squared", "dozen".
bool changes_value(std::string_view words);

// "sin", "arctan", "ln": functions of one argument, by the name that LaTeX and people share.
bool is_function(std::string_view name);
// Those whose argument is an angle.
bool takes_angle(std::string_view name);

// "and", "or".
bool is_conjunction(std::string_view word);
// "percent", "percentage", "pct".
bool is_percent(std::string_view word);
// "degree", "degrees", "deg".
bool is_degree(std::string_view word);

// 3 for "thousand", 6 for "million": powers of ten.
std::optional<int> power_of_ten(std::string_view word);
// 2 for "two", 8 for "eight": the base in 52_{\text{eight}}.
std::optional<int> small_number(std::string_view word);

}  // namespace routeopd::grade::math
