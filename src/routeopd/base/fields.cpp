// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/fields.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <numeric>

namespace routeopd {

Json value_of_word(const std::string& word) {
  const char* end = word.data() + word.size();
  std::int64_t whole = 0;
  if (const auto read = std::from_chars(word.data(), end, whole); read.ec == std::errc() && read.ptr == end)
    return whole;
  std::uint64_t large = 0;
  if (const auto read = std::from_chars(word.data(), end, large); read.ec == std::errc() && read.ptr == end)
    return large;
  double number = 0;
  if (const auto read = std::from_chars(word.data(), end, number);
      read.ec == std::errc() && read.ptr == end) {
    if (std::isfinite(number)) return number;  // "inf" and "nan" stay words, so that an error can show them
  }
  if (word == "true" || word == "false") return word == "true";
  return word;
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  constexpr std::size_t kEnough = 64;  // bytes: the time grows with the length, and nobody misspells more
  name = name.substr(0, kEnough);
  // Levenshtein distance, one row at a time.
  const auto distance = [name](std::string_view other) {
    std::vector<std::size_t> row(other.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < name.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i + 1);
      for (std::size_t j = 0; j < other.size(); ++j) {
        const std::size_t change = diagonal + (name[i] == other[j] ? 0 : 1);
        diagonal = row[j + 1];
        row[j + 1] = std::min({change, row[j] + 1, diagonal + 1});
      }
    }
    return row.back();
  };
  ROUTEOPD_INVARIANT(!known.empty());
  return *std::min_element(
      known.begin(), known.end(),
      [&](const std::string& left, const std::string& right) { return distance(left) < distance(right); });
}

std::string plain_text(const Json& value) {
  if (!value.is_string()) throw UserError("expected text, got {}", shown(value));
  const auto& text = value.get_ref<const std::string&>();
  if (text.find('\0') != std::string::npos)
    throw UserError("expected text without a zero byte, got {}",
                    value.dump(-1, ' ', false, Json::error_handler_t::replace));
  return text;
}

double number_in(const Json& value, const Range& range, bool whole) {
  const std::string kind = whole ? "a whole number" : "a number";
  std::string bounds;
  if (std::isfinite(range.low)) bounds += fmt::format(" {} {}", range.low_open ? "over" : "from", range.low);
  if (std::isfinite(range.high)) bounds += fmt::format(" to {}", range.high);
  if (!value.is_number()) throw UserError("expected {}{}, got {}", kind, bounds, shown(value));
  const double number = value.get<double>();
  const bool inside = number <= range.high && (range.low_open ? number > range.low : number >= range.low);
  if (!std::isfinite(number) || !inside || (whole && number != std::floor(number))) {
    throw UserError("expected {}{}, got {}", kind, bounds, shown(value));
  }
  return number;
}

}  // namespace routeopd
