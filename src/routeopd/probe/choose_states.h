// Which states a bank keeps: a choice by addressed random numbers, the same whoever asks.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "routeopd/base/philox.h"

namespace routeopd::probe {

// `wanted` of `count` places, ascending: those with the smallest numbers.
inline std::vector<std::size_t> choose_states(std::size_t count, std::size_t wanted, std::uint64_t seed) {
  std::vector<std::pair<std::uint32_t, std::size_t>> keys;
  for (std::size_t i = 0; i < count; ++i) {
    const StateAddress at{.position = static_cast<std::uint32_t>(i)};
    keys.emplace_back(addressed_words(seed, Purpose::kProbe, at, 0)[0], i);
  }
  std::sort(keys.begin(), keys.end());
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < wanted; ++i) chosen.push_back(keys[i].second);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace routeopd::probe
