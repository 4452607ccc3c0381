// Draws positions from the excess and deficit of one state by inverse distribution function, O(k + draws).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "routeopd/routing/union_state.h"

namespace routeopd::routing {

// Running sums of excess and deficit into `cumulative_excess` and `cumulative_deficit`.
void accumulate_marginals(UnionState& state);

// One of the two marginals, ready to be drawn from. Holds a pointer into the UnionState it was begun with.
class MarginalSampler {
 public:
  // `cumulative[0, n)` ascends to a positive total.
  void begin(const float* cumulative, std::size_t n, std::size_t draws);

  // The smallest position whose cumulative weight exceeds u times the total, 0 <= u < 1.
  std::size_t draw(float u) const;

 private:
  const float* cumulative_ = nullptr;
  std::size_t n_ = 0;
  float total_ = 0;
  std::vector<std::uint32_t> guide_;  // [g]: the position drawn at u = g / size; empty: count instead
};

}  // namespace routeopd::routing
