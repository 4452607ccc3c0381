// Hashing for the flat tables of a tokenizer: open addressing, a power of two of places, at most half of them taken.
// The tables are filled from files that others wrote, so the hash has a key that is new in every process: nobody can
// write a file whose tokens all meet in one place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>

namespace routeopd::text {

inline std::uint64_t hash_key() {
  static const std::uint64_t key = [] {
    std::random_device device;
    return (std::uint64_t{device()} << 32U | device()) | 1U;
  }();
  return key;
}

// Both halves of a 128-bit product, folded.
inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

inline std::uint64_t hash_of(std::string_view bytes, std::uint64_t key) {
  std::uint64_t hash = key ^ bytes.size();
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    hash = mixed(hash ^ word, 0x9E3779B97F4A7C15U ^ key);
  }
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < left; ++i) word |= std::uint64_t{static_cast<unsigned char>(at[i])} << (8 * i);
  return mixed(hash ^ word, 0xD6E8FEB86659FD93U ^ key);
}

inline std::size_t places_for(std::size_t count) {
  return std::bit_ceil(2 * count + 1);
}

}  // namespace routeopd::text
