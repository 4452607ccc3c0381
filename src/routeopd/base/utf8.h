// UTF-8: characters, broken sequences and code points.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace routeopd {

struct Utf8Step {
  std::size_t length;  // bytes, at least 1
  bool valid;          // a character; otherwise the longest prefix of one, or a byte that starts none
  bool cut_off;        // invalid only because the bytes end: more bytes could complete the character
};

// The step at byte `at` < bytes.size().
Utf8Step utf8_step(std::string_view bytes, std::size_t at);

// The first byte that belongs to no character, npos when all do.
std::size_t find_invalid_utf8(std::string_view bytes);
bool is_utf8(std::string_view bytes);  // no surrogates, no overlong forms, at most U+10FFFF

// Each broken step becomes one U+FFFD, as in Rust's String::from_utf8_lossy (Unicode's "maximal subpart").
std::string lossy_utf8(std::string_view bytes);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// The same for bytes that come in pieces: a character is appended with its last byte.
class LossyUtf8 {
 public:
  void add(std::string_view bytes, std::string& text);
  void finish(std::string& text);

 private:
  std::string held_;  // the first bytes of an incomplete character, at most 3
};

// The whole characters within the first `bytes` bytes of valid UTF-8.
std::string_view utf8_head(std::string_view text, std::size_t bytes);

// Whether all bytes are ASCII.
bool is_ascii(std::string_view bytes);
constexpr bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

// The length in bytes of the character that starts with `first`, in valid UTF-8.
constexpr std::size_t utf8_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The character at byte `at` of valid UTF-8.
constexpr char32_t code_point_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + i]));
  };
  const char32_t first = byte(0);
  if (first < 0x80) return first;
  if (first < 0xE0) return (first & 0x1FU) << 6U | (byte(1) & 0x3FU);
  if (first < 0xF0) return (first & 0x0FU) << 12U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU);
  return (first & 0x07U) << 18U | (byte(1) & 0x3FU) << 12U | (byte(2) & 0x3FU) << 6U | (byte(3) & 0x3FU);
}

// The next three require valid UTF-8.
std::int64_t count_code_points(std::string_view text);
// The code point at byte `at`; `at` moves to the next one.
char32_t next_code_point(std::string_view text, std::size_t& at);
// The code point that ends before byte `end`; `end` moves to its first byte.
char32_t previous_code_point(std::string_view text, std::size_t& end);

void append_utf8(char32_t code_point, std::string& text);

}  // namespace routeopd
