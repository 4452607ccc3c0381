// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/hashes.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <fstream>
#include <vector>

#include "routeopd/base/error.h"

namespace routeopd {
namespace {

// SHA-256: the first 32 bits of the fractional parts of the cube roots of the first 64 primes (the standard's
// table).
constexpr std::array<std::uint32_t, 64> kShaRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using ShaState = std::array<std::uint32_t, 8>;
constexpr std::size_t kShaBlock = 64;

// Takes `count` blocks of 64 bytes into the state.
using TakeBlocks = void (*)(ShaState& state, const std::uint8_t* bytes, std::size_t count);

void take_blocks_plain(ShaState& state, const std::uint8_t* bytes, std::size_t count) {
  for (; count > 0; --count, bytes += kShaBlock) {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 16; ++i) {
      w[i] = std::uint32_t{bytes[4 * i]} << 24 | std::uint32_t{bytes[4 * i + 1]} << 16 |
             std::uint32_t{bytes[4 * i + 2]} << 8 | std::uint32_t{bytes[4 * i + 3]};
    }
    for (std::size_t i = 16; i < 64; ++i) {
      const std::uint32_t a = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
      const std::uint32_t b = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
      w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kShaRounds[i] + w[i];
      const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const ShaState more = {a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state[i] += more[i];
  }
}

#if defined(__x86_64__)
// With the processor's instructions: each register holds four of the eight words, each pass of the inner loop
// does four rounds.
__attribute__((target("sha,sse4.1"))) void take_blocks_x86(ShaState& state, const std::uint8_t* bytes,
                                                           std::size_t count) {
  const auto load = [](const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); };
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i dcba = _mm_shuffle_epi32(load(&state[0]), 0xB1);
  __m128i cdgh = _mm_shuffle_epi32(load(&state[4]), 0x1B);
  __m128i abef = _mm_alignr_epi8(dcba, cdgh, 8);
  cdgh = _mm_blend_epi16(cdgh, dcba, 0xF0);
  for (; count > 0; --count, bytes += kShaBlock) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4] = {};
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      __m128i& words = w[i & 3];
      if (i < 4) {
        words = _mm_shuffle_epi8(load(bytes + 16 * i), big_endian);
      } else {
        const __m128i last = w[(i + 3) & 3];
        const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(words, w[(i + 1) & 3]),
                                          _mm_alignr_epi8(last, w[(i + 2) & 3], 4));
        words = _mm_sha256msg2_epu32(sum, last);
      }
      const __m128i input = _mm_add_epi32(words, load(&kShaRounds[static_cast<std::size_t>(4 * i)]));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, input);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(input, 0x0E));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B), dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[0]), _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[4]), _mm_alignr_epi8(dchg, feba, 8));
}

bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0;
}
#endif

TakeBlocks fastest() {
#if defined(__x86_64__)
  static const bool fast = has_sha_instructions();
  if (fast) return take_blocks_x86;
#endif
  return take_blocks_plain;
}

class Sha256 {
 public:
  explicit Sha256(TakeBlocks take) : take_(take) {}

  void add(std::string_view text) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
    std::size_t count = text.size();
    total_ += count;
    if (filled_ > 0) {
      const std::size_t some = std::min(count, kShaBlock - filled_);
      std::copy_n(bytes, some, block_.data() + filled_);
      filled_ += some;
      bytes += some;
      count -= some;
      if (filled_ < kShaBlock) return;
      take_(state_, block_.data(), 1);
    }
    take_(state_, bytes, count / kShaBlock);
    filled_ = count % kShaBlock;
    std::copy_n(bytes + count - filled_, filled_, block_.data());
  }

  std::string digits() {
    const std::uint64_t bits = total_ * 8;
    std::string end = "\x80";
    end.resize((filled_ < 56 ? 56 : 56 + kShaBlock) - filled_);  // zeros
    for (int shift = 56; shift >= 0; shift -= 8) end += static_cast<char>(bits >> shift);
    add(end);
    std::string text;
    for (const std::uint32_t word : state_) text += fmt::format("{:08x}", word);
    return text;
  }

 private:
  TakeBlocks take_;
  ShaState state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, kShaBlock> block_{};
  std::size_t filled_ = 0;
  std::uint64_t total_ = 0;
};

std::string sha256_by(std::string_view bytes, TakeBlocks take) {
  Sha256 hash(take);
  hash.add(bytes);
  return hash.digits();
}

// CRC-32C's polynomial 0x1edc6f41 with its bits reversed: the low bit goes first.
constexpr std::uint32_t kCrcPolynomial = 0x82f63b78;

// The remainder of each byte. One byte per step is fast enough for records of a few kilobytes.
constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ ((rest & 1) != 0 ? kCrcPolynomial : 0);
    table[byte] = rest;
  }
  return table;
}();

}  // namespace

std::string sha256(std::string_view bytes) {
  return sha256_by(bytes, fastest());
}

std::string sha256_plain(std::string_view bytes) {
  return sha256_by(bytes, take_blocks_plain);
}

std::string sha256_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path))
    throw UserError("{}: cannot be read; is the path right?", path.string());
  Sha256 hash(fastest());
  std::vector<char> buffer(1 << 20);
  while (file.read(buffer.data(), std::ssize(buffer)) || file.gcount() > 0)
    hash.add({buffer.data(), static_cast<std::size_t>(file.gcount())});
  if (file.bad()) throw UserError("{}: reading failed", path.string());
  return hash.digits();
}

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t rest = 0xffffffff;
  for (const char byte : bytes) rest = rest >> 8 ^ kCrcTable[(rest ^ static_cast<std::uint8_t>(byte)) & 0xff];
  return ~rest;
}

}  // namespace routeopd
