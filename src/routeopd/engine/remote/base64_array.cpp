// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/remote/base64_array.h"

#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "routeopd/engine/remote/server_api.h"

namespace routeopd::engine {
namespace {

static_assert(std::endian::native == std::endian::little);  // '<f4' is copied as it is

constexpr std::array<std::int8_t, 256> base64_digits() {
  std::array<std::int8_t, 256> table{};
  table.fill(-1);
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < alphabet.size(); ++i)
    table[static_cast<unsigned char>(alphabet[i])] = static_cast<std::int8_t>(i);
  return table;
}

std::string base64_bytes(std::string_view text) {
  static constexpr std::array<std::int8_t, 256> kDigits = base64_digits();
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::uint32_t word = 0;
  int bits = 0;
  for (const char letter : text) {
    const std::int8_t digit = kDigits[static_cast<unsigned char>(letter)];
    if (digit < 0) throw BadAnswer("an array is not in base64");
    word = word << 6U | static_cast<std::uint32_t>(digit);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<char>(word >> static_cast<unsigned>(bits) & 0xFFU));
  }
  return bytes;
}

}  // namespace

std::vector<float> read_base64_array(std::string_view text, std::int64_t rows, std::int64_t columns) {
  const std::string bytes = base64_bytes(text);
  // "\x93NUMPY", version 1.0, two bytes with the length of a header in Python's notation, the values.
  constexpr std::string_view kMagic{"\x93NUMPY\x01\x00", 8};
  if (bytes.size() < 10 || bytes.compare(0, 8, kMagic) != 0)
    throw BadAnswer("an array is not one that numpy saved");
  const std::size_t header =
      static_cast<unsigned char>(bytes[8]) + 256U * static_cast<unsigned char>(bytes[9]);
  if (bytes.size() < 10 + header) throw BadAnswer("an array ends within its header");
  const std::string_view described = std::string_view(bytes).substr(10, header);
  const std::string shape = fmt::format("'shape': ({}, {})", rows, columns);
  for (const std::string_view part : {std::string_view("'descr': '<f4'"),
                                      std::string_view("'fortran_order': False"), std::string_view(shape)}) {
    if (described.find(part) == std::string_view::npos)
      throw BadAnswer(fmt::format("an array is of another kind or shape; expected {}", part));
  }
  const auto count = static_cast<std::size_t>(rows * columns);
  if (bytes.size() != 10 + header + count * sizeof(float))
    throw BadAnswer(fmt::format("an array has {} bytes of values; expected {}", bytes.size() - 10 - header,
                                count * sizeof(float)));
  std::vector<float> values(count);
  std::memcpy(values.data(), bytes.data() + 10 + header, count * sizeof(float));
  return values;
}

}  // namespace routeopd::engine
