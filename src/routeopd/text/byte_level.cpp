//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/byte_level.h"

#include <cstddef>
#include <cstdint>

#include "routeopd/text/utf8.h"

namespace routeopd::text {
namespace {

constexpr unsigned kCodePoints = 0x144;  // one more than the last of the alphabet

bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

std::array<unsigned, 256> make_code_points() {
  std::array<unsigned, 256> code_points = {};
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) code_points[byte] = stands_for_itself(byte) ? byte : next++;
  return code_points;
}

// The byte of each code point, -1 for one outside the alphabet.
std::array<std::int16_t, kCodePoints> make_bytes() {
  std::array<std::int16_t, kCodePoints> bytes = {};
  bytes.fill(-1);
  const std::array<unsigned, 256> code_points = make_code_points();
  for (unsigned byte = 0; byte < 256; ++byte) bytes[code_points[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}

}  // namespace

const std::array<std::string, 256>& byte_symbols() {
  static const std::array<std::string, 256> symbols = [] {
    std::array<std::string, 256> made;
    const std::array<unsigned, 256> code_points = make_code_points();
    for (unsigned byte = 0; byte < 256; ++byte) made[byte] = utf8_of(code_points[byte]);
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

void append_bytes_of(std::string_view token, std::string& bytes) {
  static const std::array<std::int16_t, kCodePoints> byte_of = make_bytes();
  const std::size_t before = bytes.size();
  for (std::size_t at = 0; at < token.size();) {
    const Utf8Step step = utf8_step(token, at);
    unsigned code_point = static_cast<unsigned char>(token[at]);
    if (step.length == 2)
      code_point = (code_point & 0x1FU) << 6U | (static_cast<unsigned char>(token[at + 1]) & 0x3FU);
    if (!step.valid || step.length > 2 || code_point >= kCodePoints || byte_of[code_point] < 0) {
      bytes.resize(before);
      bytes += token;
      return;
    }
    bytes += static_cast<char>(byte_of[code_point]);
    at += step.length;
  }
}

}  // namespace routeopd::text
