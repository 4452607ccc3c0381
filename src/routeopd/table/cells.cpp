// SPDX-License-Identifier: Apache-2.0
#include "routeopd/table/cells.h"

#include <fmt/format.h>

namespace routeopd::table {

std::string number(std::optional<double> value, int digits) {
  if (!value) return kDash;
  const std::string text = fmt::format("{:.{}f}", *value, digits);
  // -0.00 is 0.00.
  return text.starts_with('-') && text.find_first_not_of("-0.") == std::string::npos ? text.substr(1) : text;
}

std::string signed_number(std::optional<double> value, int digits) {
  const std::string text = number(value, digits);
  const bool positive = value && *value > 0 && text.find_first_not_of("0.") != std::string::npos;
  return positive ? "+" + text : text;
}

std::string percent(std::optional<double> fraction, int digits) {
  return fraction ? number(100 * *fraction, digits) : kDash;
}

std::string points(double fraction, int digits) {
  return signed_number(100 * fraction, digits);
}

std::string significant(std::optional<double> value) {
  return value ? fmt::format("{:.3g}", *value) : kDash;
}

std::string interval(double low, double high, int digits) {
  return fmt::format("[{}, {}]", percent(low, digits), percent(high, digits));
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == names.size() ? " and " : ", ", names[i]);
  return text;
}

}  // namespace routeopd::table
