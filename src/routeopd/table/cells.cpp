//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/cells.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

namespace routeopd::report {

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

std::string points(const grade::Interval& change) {
  return fmt::format("{} [{}, {}]", points(change.mean), points(change.low), points(change.high));
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == names.size() ? " and " : ", ", names[i]);
  return text;
}

std::optional<double> mean_of(const std::vector<std::optional<double>>& values) {
  double sum = 0, count = 0;
  for (const std::optional<double>& value : values) {
    if (!value) continue;
    sum += *value;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

std::optional<double> spread_of(const std::vector<double>& values) {
  if (values.size() < 2) return std::nullopt;
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / (count - 1));
}

}  // namespace routeopd::report
