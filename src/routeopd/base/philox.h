// Addressed randomness: Philox4x32-10, a counter-based generator. A random number is a pure function of what
// it is for, so it does not change with batch layout, threads, ranks or a resume.
//
//   key     = the run's seed (low word, high word)
//   counter = { purpose << 24 | draw, step, prompt << 8 | response, position }
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "routeopd/base/error.h"

namespace routeopd {

// What a random number is for. Values are part of the reproducibility promise: append, never renumber.
enum class Purpose : std::uint8_t {
  kPromptOrder = 0,
  kDecode = 1,
  kRoutePairs = 2,
  kBackgroundPool = 3,
  kBootstrap = 4,
  kProbe = 5,
  kLaboratory = 6,
  kInitialWeights = 7,
};

// Where a visited state is: which step of the run, which prompt, which of its responses, which token
// position.
struct StateAddress {
  std::uint32_t step = 0;
  std::uint32_t prompt = 0;    // < 2^24
  std::uint32_t response = 0;  // < 2^8
  std::uint32_t position = 0;
};

using PhiloxBlock = std::array<std::uint32_t, 4>;

// The ten rounds of Philox4x32 (Salmon et al., SC 2011).
constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::uint32_t key_low, std::uint32_t key_high) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t even = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t odd = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(odd >> 32) ^ counter[1] ^ key_low, static_cast<std::uint32_t>(odd),
               static_cast<std::uint32_t>(even >> 32) ^ counter[3] ^ key_high,
               static_cast<std::uint32_t>(even)};
    key_low += 0x9E3779B9;
    key_high += 0xBB67AE85;
  }
  return counter;
}

// Uniform on [0, 1) with 24 bits, exact in float.
constexpr float unit_uniform(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24F;
}

// Throws UserError when the address does not fit its counter fields.
inline void check_address(const StateAddress& address) {
  if (address.prompt >= 1U << 24) {
    throw UserError(
        "random address: prompt {} is past the last addressable one, {}; split the prompts over runs",
        address.prompt, (1U << 24) - 1);
  }
  if (address.response >= 1U << 8) {
    throw UserError(
        "random address: response {} is past the last addressable one, 255; ask for fewer responses per "
        "prompt",
        address.response);
  }
}

// The four words of draw number `draw` (< 2^24) for `purpose` at a state whose address was checked.
constexpr PhiloxBlock addressed_words(std::uint64_t seed, Purpose purpose, const StateAddress& at,
                                      std::uint32_t draw) {
  return philox4x32(
      {static_cast<std::uint32_t>(purpose) << 24 | draw, at.step, at.prompt << 8 | at.response, at.position},
      static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

}  // namespace routeopd
