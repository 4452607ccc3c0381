// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace routeopd {
namespace {

// The number of ASCII bytes from `at` on. Looks at eight bytes at a time.
std::size_t ascii_run(std::string_view bytes, std::size_t at) {
  const std::size_t begin = at;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    if ((word & 0x8080808080808080U) != 0) break;
  }
  while (at < bytes.size() && static_cast<unsigned char>(bytes[at]) < 0x80) ++at;
  return at - begin;
}

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

}  // namespace

Utf8Step utf8_step(std::string_view bytes, std::size_t at) {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(bytes[index]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return {1, true, false};
  // The Unicode standard's table 3-7: the range of the second byte excludes overlong forms, surrogates and
  // what is above U+10FFFF.
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
    return {1, false, false};
  }
  for (std::size_t i = 1; i < length; ++i) {
    if (at + i >= bytes.size()) return {i, false, true};
    if (byte(at + i) < low || byte(at + i) > high) return {i, false, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true, false};
}

std::size_t find_invalid_utf8(std::string_view bytes) {
  for (std::size_t at = ascii_run(bytes, 0); at < bytes.size(); at += ascii_run(bytes, at)) {
    const Utf8Step step = utf8_step(bytes, at);
    if (!step.valid) return at;
    at += step.length;
    if (at == bytes.size()) break;
  }
  return std::string_view::npos;
}

bool is_utf8(std::string_view bytes) {
  return find_invalid_utf8(bytes) == std::string_view::npos;
}

std::string_view utf8_head(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && is_continuation(text[bytes])) --bytes;
  return text.substr(0, bytes);
}

bool is_ascii(std::string_view bytes) {
  return ascii_run(bytes, 0) == bytes.size();
}

std::string lossy_utf8(std::string_view bytes) {
  if (find_invalid_utf8(bytes) == std::string_view::npos) return std::string(bytes);
  std::string text;
  text.reserve(bytes.size());
  LossyUtf8 reader;
  reader.add(bytes, text);
  reader.finish(text);
  return text;
}

void LossyUtf8::add(std::string_view bytes, std::string& text) {
  if (!held_.empty()) {
    held_ += bytes;
    bytes = held_;
  }
  std::size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Step step = utf8_step(bytes, at);
    if (step.cut_off) break;
    text += step.valid ? bytes.substr(at, step.length) : kReplacementCharacter;
    at += step.length;
  }
  held_ = std::string(bytes.substr(at));
}

void LossyUtf8::finish(std::string& text) {
  if (!held_.empty()) text += kReplacementCharacter;
  held_.clear();
}

std::int64_t count_code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char byte) { return !is_continuation(byte); });
}

char32_t next_code_point(std::string_view text, std::size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at++]);
  if (lead < 0x80) return lead;
  const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  char32_t point = lead & (0x3FU >> static_cast<unsigned>(more));
  for (int i = 0; i < more; ++i) point = (point << 6U) | (static_cast<unsigned char>(text[at++]) & 0x3FU);
  return point;
}

char32_t previous_code_point(std::string_view text, std::size_t& end) {
  do {
    --end;
  } while (is_continuation(text[end]));
  std::size_t at = end;
  return next_code_point(text, at);
}

void append_utf8(char32_t code_point, std::string& text) {
  const auto tail = [&](unsigned shift) {
    text += static_cast<char>(0x80U | (static_cast<unsigned>(code_point >> shift) & 0x3FU));
  };
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    text += static_cast<char>(0xC0U | static_cast<unsigned>(code_point >> 6U));
    tail(0);
  } else if (code_point < 0x10000) {
    text += static_cast<char>(0xE0U | static_cast<unsigned>(code_point >> 12U));
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xF0U | static_cast<unsigned>(code_point >> 18U));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace routeopd
