// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/math/words.h"

#include <algorithm>
#include <array>
#include <string>

#include "routeopd/grade/ascii.h"

namespace routeopd::grade::math {
namespace {

// Sorted. Two letters at least: one letter is a variable. No unit that is a common answer as a word.
constexpr std::array<std::string_view, 95> kUnits = {
    "acre",   "acres",    "cc",      "cent",     "centimeter", "centimeters", "centimetre", "centimetres",
    "cents",  "cm",       "coins",   "cu",       "cubic",      "cups",        "day",        "days",
    "deg",    "degree",   "degrees", "digits",   "dm",         "dollar",      "dollars",    "euro",
    "euros",  "feet",     "foot",    "ft",       "gal",        "gallon",      "gallons",    "gm",
    "gram",   "grams",    "hour",    "hours",    "hr",         "hrs",         "in",         "inch",
    "inches", "integers", "kg",      "kilogram", "kilograms",  "kilometer",   "kilometers", "km",
    "kmh",    "kph",      "lb",      "lbs",      "liter",      "liters",      "litre",      "litres",
    "meter",  "meters",   "metre",   "metres",   "mg",         "mile",        "miles",      "min",
    "minute", "minutes",  "ml",      "mm",       "month",      "months",      "mph",        "oz",
    "pence",  "people",   "per",     "points",   "pound",      "pounds",      "radians",    "sec",
    "second", "seconds",  "sq",      "square",   "students",   "times",       "unit",       "units",
    "ways",   "week",     "weeks",   "yard",     "yards",      "year",        "years"};

constexpr std::array<std::string_view, 24> kFunctions = {
    "arccos", "arccot", "arcsin", "arctan", "cos", "cosh", "cot", "coth", "csc",  "exp",  "gcd", "lcm",
    "lg",     "ln",     "log",    "max",    "min", "sec",  "sgn", "sin",  "sinh", "sqrt", "tan", "tanh"};

constexpr std::array<std::string_view, 6> kAngled = {"cos", "cot", "csc", "sec", "sin", "tan"};

constexpr std::array<std::string_view, 17> kSmall = {
    "zero", "one", "two",    "three",  "four",     "five",     "six",     "seven",  "eight",
    "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"};

static_assert(std::is_sorted(kUnits.begin(), kUnits.end()));
static_assert(std::is_sorted(kFunctions.begin(), kFunctions.end()));
static_assert(std::is_sorted(kAngled.begin(), kAngled.end()));

}  // namespace

bool is_unit(std::string_view word) {
  return std::binary_search(kUnits.begin(), kUnits.end(), std::string_view(lower_case(word)));
}

bool changes_value(std::string_view words) {
  static constexpr std::array<std::string_view, 18> kMore = {
      "and",  "cubed", "dozen", "factorial", "fewer", "greater", "half",    "incorrect", "less",
      "more", "minus", "not",   "or",        "plus",  "score",   "squared", "than",      "wrong"};
  const std::string text = lower_case(words);
  for (std::size_t at = 0; at < text.size();) {
    if (is_digit(text[at])) return true;
    std::size_t end = at;
    while (end < text.size() && is_letter(text[end])) ++end;
    if (std::find(kMore.begin(), kMore.end(), std::string_view(text).substr(at, end - at)) != kMore.end())
      return true;
    at = std::max(end, at + 1);
  }
  return false;
}

bool is_function(std::string_view name) {
  return std::binary_search(kFunctions.begin(), kFunctions.end(), name);
}

bool takes_angle(std::string_view name) {
  return std::binary_search(kAngled.begin(), kAngled.end(), name);
}

bool is_conjunction(std::string_view word) {
  return word == "and" || word == "or";
}

bool is_percent(std::string_view word) {
  return word == "percent" || word == "percentage" || word == "pct";
}

bool is_degree(std::string_view word) {
  return word == "degree" || word == "degrees" || word == "deg";
}

std::optional<int> power_of_ten(std::string_view word) {
  if (word == "hundred") return 2;
  if (word == "thousand") return 3;
  if (word == "million") return 6;
  if (word == "billion") return 9;
  if (word == "trillion") return 12;
  return std::nullopt;
}

std::optional<int> small_number(std::string_view word) {
  const auto at = std::find(kSmall.begin(), kSmall.end(), word);
  if (at == kSmall.end()) return std::nullopt;
  return static_cast<int>(at - kSmall.begin());
}

}  // namespace routeopd::grade::math
