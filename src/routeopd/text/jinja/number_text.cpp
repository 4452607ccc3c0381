//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/jinja/number_text.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "routeopd/base/error.h"
#include "routeopd/text/jinja/unicode.h"

namespace routeopd::text::jinja {
namespace {

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

// Without whitespace around it and without its underscores, which must stand between digits.
std::optional<std::string> cleaned(std::string_view text) {
  text = strip_right(strip_left(text));
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      plain.push_back(text[i]);
      continue;
    }
    const auto is_word = [](char c) { return is_ascii_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); };
    if (i == 0 || i + 1 == text.size() || !is_word(text[i - 1]) || !is_word(text[i + 1])) return std::nullopt;
  }
  return plain;
}

}  // namespace

std::optional<std::int64_t> parsed_integer(std::string_view text, std::int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  const auto plain = cleaned(text);
  if (!plain) return std::nullopt;
  std::string_view digits = *plain;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  const char letter = digits.size() > 2 && digits[0] == '0' ? static_cast<char>(digits[1] | 0x20) : '\0';
  const std::int64_t prefixed = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (prefixed != 0 && (base == 0 || base == prefixed)) {
    digits.remove_prefix(2);
    base = prefixed;
  } else if (base == 0) {
    // Without a prefix, only zero may begin with a zero.
    if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string_view::npos)
      return std::nullopt;
    base = 10;
  }
  if (digits.empty()) return std::nullopt;
  const auto digit_of = [base](char c) -> std::int64_t {
    const char lower = static_cast<char>(c | 0x20);
    const std::int64_t digit = is_ascii_digit(c)              ? c - '0'
                               : lower >= 'a' && lower <= 'z' ? lower - 'a' + 10
                                                              : 99;
    return digit < base ? digit : -1;
  };
  if (std::any_of(digits.begin(), digits.end(), [&](char c) { return digit_of(c) < 0; })) return std::nullopt;
  std::int64_t value = 0;
  for (const char c : digits) {
    const std::int64_t digit = digit_of(c);
    if (__builtin_mul_overflow(value, base, &value) ||
        __builtin_add_overflow(value, negative ? -digit : digit, &value))
      throw UserError("int: expected a number below 2^63, got a larger one");
  }
  return value;
}

std::optional<double> parsed_float(std::string_view text) {
  const auto plain = cleaned(text);
  if (!plain || plain->empty()) return std::nullopt;
  const std::size_t sign = plain->front() == '-' || plain->front() == '+' ? 1 : 0;
  const std::string word = to_lower(std::string_view(*plain).substr(sign));
  const bool is_word = word == "inf" || word == "infinity" || word == "nan";
  // strtod reads hexadecimal numbers too, which Python does not.
  if (!is_word && word.find_first_not_of("0123456789.e+-") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(plain->c_str(), &end);
  if (end != plain->c_str() + plain->size()) return std::nullopt;
  return value;
}

}  // namespace routeopd::text::jinja
