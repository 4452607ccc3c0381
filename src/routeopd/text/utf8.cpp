//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/utf8.h"

namespace routeopd::text {

Utf8Step utf8_step(std::string_view bytes, std::size_t at) {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(bytes[index]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return {1, true};
  // The Unicode standard's table 3-7: the range of the second byte keeps out overlong forms, surrogates and
  // what is past U+10FFFF.
  std::size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return {1, false};
  }
  for (std::size_t i = 1; i < length; ++i) {
    if (at + i >= bytes.size() || byte(at + i) < low || byte(at + i) > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true};
}

std::size_t find_invalid_utf8(std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Step step = utf8_step(bytes, at);
    if (!step.valid) return at;
    at += step.length;
  }
  return std::string_view::npos;
}

std::string lossy_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Step step = utf8_step(bytes, at);
    text += step.valid ? bytes.substr(at, step.length) : "\xEF\xBF\xBD";
    at += step.length;
  }
  return text;
}

std::string utf8_of(unsigned code_point) {
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xC0U | code_point >> 6U), static_cast<char>(0x80U | (code_point & 0x3FU))};
}

}  // namespace routeopd::text
