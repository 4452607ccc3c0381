// Hashes: SHA-256 to name files by their contents, CRC-32C for record files, and keyed 64-bit hashes for
// tables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>

namespace routeopd {

// SHA-256 (FIPS 180-4) in 64 hexadecimal digits.
std::string sha256(std::string_view bytes);
std::string sha256_plain(std::string_view bytes);  // without the processor's SHA instructions: the reference

// Throws UserError when the file cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);

// CRC-32C (Castagnoli; RFC 3720, appendix B.4).
std::uint32_t crc32c(std::string_view bytes);

// For tables with open addressing that are filled from untrusted files. The key differs in every process, so
// that no file can be written whose entries all collide.
inline std::uint64_t hash_key() {
  static const std::uint64_t key = [] {
    std::random_device device;
    return (std::uint64_t{device()} << 32U | device()) | 1U;
  }();
  return key;
}

// The two halves of the 128-bit product, combined by exclusive or.
inline std::uint64_t folded_product(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

inline std::uint64_t keyed_hash(std::string_view bytes, std::uint64_t key) {
  std::uint64_t hash = key ^ bytes.size();
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    hash = folded_product(hash ^ word, 0x9E3779B97F4A7C15U ^ key);
  }
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < left; ++i) word |= std::uint64_t{static_cast<unsigned char>(at[i])} << (8 * i);
  return folded_product(hash ^ word, 0xD6E8FEB86659FD93U ^ key);
}

// Slots of a table for `count` entries: a power of two, of which at most half are taken.
inline std::size_t hash_table_size(std::size_t count) {
  return std::bit_ceil(2 * count + 1);
}

}  // namespace routeopd
