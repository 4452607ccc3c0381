// Work on a thread that ends with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <future>
#include <utility>

namespace routeopd {

// Calls `work` on a thread of its own and waits for it; throws what it threw. OpenMP keeps a team for every
// thread that has ever run a parallel region, and as soon as all teams together have more threads than there
// are processors, none of them spins at its barriers any more: on two cores a step of the engine then takes a
// tenth longer. The team of a thread that has ended is gone.
template <class Work>
auto run_apart(Work&& work) {
  return std::async(std::launch::async, std::forward<Work>(work)).get();
}

}  // namespace routeopd
