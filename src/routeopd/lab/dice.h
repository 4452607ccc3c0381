// A run of addressed random numbers: draw 0, 1, … of one object, which is the same whoever asks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "routeopd/base/philox.h"

namespace routeopd::lab {

class Dice {
 public:
  Dice(std::uint64_t seed, const StateAddress& object) : seed_(seed), object_(object) {
    check_address(object);
  }

  double uniform() {
    return static_cast<double>(
        unit_uniform(addressed_words(seed_, Purpose::kLaboratory, object_, draw_++)[0]));
  }
  bool chance(double rate) { return uniform() < rate; }
  std::size_t below(std::size_t count) {
    return std::min(static_cast<std::size_t>(uniform() * static_cast<double>(count)), count - 1);
  }
  std::int32_t between(std::int32_t low, std::int32_t high) {  // both included
    return low + static_cast<std::int32_t>(below(static_cast<std::size_t>(high - low) + 1));
  }
  template <class List>
  auto among(const List& list) {
    return list[below(list.size())];
  }

 private:
  std::uint64_t seed_;
  StateAddress object_;
  std::uint32_t draw_ = 0;
};

}  // namespace routeopd::lab
