// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/literals.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>

#include "routeopd/base/error.h"
#include "routeopd/base/python_unicode.h"
#include "routeopd/base/utf8.h"

namespace routeopd::jinja {
namespace {

// Without whitespace around it and without its underscores, which must stand between digits.
std::optional<std::string> cleaned(std::string_view text) {
  text = python::strip_right(python::strip_left(text));
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

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The code point of `digits` hex digits at `at`, which moves behind them.
char32_t hex_point(std::string_view body, std::size_t& at, std::size_t digits, char letter) {
  char32_t point = 0;
  for (std::size_t i = 0; i < digits; ++i, ++at) {
    const int value = at < body.size() ? hex_value(body[at]) : -1;
    if (value < 0) throw UserError("expected {} hex digits behind \\{}, got fewer", digits, letter);
    point = point * 16 + static_cast<char32_t>(value);
  }
  if (point > 0x10FFFF || (point >= 0xD800 && point < 0xE000))
    throw UserError("expected a character behind \\{}, got {:#x}, which is none", letter,
                    static_cast<std::uint32_t>(point));
  return point;
}

// jinja turns é into \xe9 before it looks for escapes: behind a backslash, the backslash escapes that one's.
std::string escaped_spelling(char32_t point) {
  const auto code = static_cast<std::uint32_t>(point);
  if (code < 0x100) return fmt::format("\\x{:02x}", code);
  if (code < 0x10000) return fmt::format("\\u{:04x}", code);
  return fmt::format("\\U{:08x}", code);
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
  const std::string word = python::to_lower(std::string_view(*plain).substr(sign));
  const bool is_word = word == "inf" || word == "infinity" || word == "nan";
  // strtod reads hexadecimal numbers too, which Python does not.
  if (!is_word && word.find_first_not_of("0123456789.e+-") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(plain->c_str(), &end);
  if (end != plain->c_str() + plain->size()) return std::nullopt;
  return value;
}

std::string unescaped(std::string_view body) {
  constexpr std::string_view kLetters = "abfnrtv\\'\"";
  constexpr std::string_view kMeant = "\a\b\f\n\r\t\v\\'\"";
  std::string text;
  for (std::size_t at = 0; at < body.size();) {
    if (body[at] != '\\') {
      text.push_back(body[at++]);
      continue;
    }
    const char letter = body[at + 1];  // the lexer took the backslash and what follows together
    at += 2;
    if (const std::size_t known = kLetters.find(letter); known != std::string_view::npos) {
      text.push_back(kMeant[known]);
    } else if (letter == '\n') {
      continue;
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      append_utf8(hex_point(body, at, letter == 'x' ? 2 : letter == 'u' ? 4 : 8, letter), text);
    } else if (letter >= '0' && letter <= '7') {
      char32_t point = 0;
      std::size_t end = at - 1;
      for (; end < body.size() && end < at + 2 && body[end] >= '0' && body[end] <= '7'; ++end)
        point = point * 8 + static_cast<char32_t>(body[end] - '0');
      at = end;
      append_utf8(point, text);
    } else if (letter == 'N') {
      throw UserError("\\N{{…}} in a string is not supported; write \\u and the character's number");
    } else if (static_cast<unsigned char>(letter) >= 0x80) {
      --at;
      text += escaped_spelling(next_code_point(body, at));
    } else {
      text.push_back('\\');
      text.push_back(letter);
    }
  }
  return text;
}

}  // namespace routeopd::jinja
