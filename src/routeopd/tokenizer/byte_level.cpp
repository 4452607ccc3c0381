// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/byte_level.h"

#include <cstddef>
#include <cstdint>

#include "routeopd/base/utf8.h"

namespace routeopd::tokenizer {
namespace {

constexpr char32_t kCodePoints = 0x144;  // one past the last of the alphabet

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> make_code_points() {
  std::array<char32_t, 256> code_points = {};
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) code_points[byte] = stands_for_itself(byte) ? byte : next++;
  return code_points;
}

// The byte of each code point, -1 outside the alphabet.
constexpr std::array<std::int16_t, kCodePoints> make_bytes() {
  std::array<std::int16_t, kCodePoints> bytes = {};
  for (std::int16_t& byte : bytes) byte = -1;
  const std::array<char32_t, 256> code_points = make_code_points();
  for (unsigned byte = 0; byte < 256; ++byte) bytes[code_points[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}

constexpr std::array<std::int16_t, kCodePoints> kByteOf = make_bytes();

}  // namespace

const std::array<std::string, 256>& byte_symbols() {
  static const std::array<std::string, 256> symbols = [] {
    std::array<std::string, 256> made;
    const std::array<char32_t, 256> code_points = make_code_points();
    for (unsigned byte = 0; byte < 256; ++byte) append_utf8(code_points[byte], made[byte]);
    return made;
  }();
  return symbols;
}

std::string spelled(std::string_view bytes) {
  std::string token;
  token.reserve(2 * bytes.size());
  for (const char byte : bytes) token += byte_symbols()[static_cast<unsigned char>(byte)];
  return token;
}

bool append_unspelled(std::string_view token, std::string& bytes) {
  const std::size_t before = bytes.size();
  for (std::size_t at = 0; at < token.size(); at += utf8_length(token[at])) {
    const char32_t code_point = code_point_at(token, at);
    if (code_point >= kCodePoints || kByteOf[code_point] < 0) {
      bytes.resize(before);
      return false;
    }
    bytes += static_cast<char>(kByteOf[code_point]);
  }
  return true;
}

void append_bytes_of(std::string_view token, std::string& bytes) {
  if (!append_unspelled(token, bytes)) bytes += token;
}

}  // namespace routeopd::tokenizer
