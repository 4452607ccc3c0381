//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/jinja/string_literal.h"

#include <cstddef>

#include "routeopd/base/error.h"
#include "routeopd/text/jinja/unicode.h"

namespace routeopd::text::jinja {
namespace {

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
      append_code_point(text, hex_point(body, at, letter == 'x' ? 2 : letter == 'u' ? 4 : 8, letter));
    } else if (letter >= '0' && letter <= '7') {
      char32_t point = 0;
      std::size_t end = at - 1;
      for (; end < body.size() && end < at + 2 && body[end] >= '0' && body[end] <= '7'; ++end)
        point = point * 8 + static_cast<char32_t>(body[end] - '0');
      at = end;
      append_code_point(text, point);
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

}  // namespace routeopd::text::jinja
