//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/crc32c.h"

#include <array>

namespace routeopd {
namespace {

constexpr std::uint32_t kPolynomial =
    0x82f63b78;  // 0x1edc6f41 with its bits reversed: the low bit goes first

// kTable[b] is the remainder of the byte b. One byte a step is enough: what is summed here is a few kilobytes at a time.
constexpr std::array<std::uint32_t, 256> kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ ((rest & 1) != 0 ? kPolynomial : 0);
    table[byte] = rest;
  }
  return table;
}();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t rest = 0xffffffff;
  for (const char byte : bytes) rest = rest >> 8 ^ kTable[(rest ^ static_cast<std::uint8_t>(byte)) & 0xff];
  return ~rest;
}

}  // namespace routeopd
