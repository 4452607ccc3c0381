// How the loops of this library use threads: the caller hands in its own, such as LibTorch's pool, or none.
// The bits of a result do not depend on it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace routeopd::kernels {

struct ParallelFor {
  using Work = std::function<void(std::int64_t begin, std::int64_t end)>;

  int threads = 1;  // ranges that run at the same time, at most

  // Calls work on disjoint ranges that cover [begin, end), not at all where it is empty, and returns once all
  // have ended. A range shorter than `grain` is not worth a thread.
  std::function<void(std::int64_t begin, std::int64_t end, std::int64_t grain, const Work& work)> run =
      [](std::int64_t begin, std::int64_t end, std::int64_t, const Work& work) {
        if (begin < end) work(begin, end);
      };

  void operator()(std::int64_t begin, std::int64_t end, std::int64_t grain, const Work& work) const {
    run(begin, end, grain, work);
  }
};

}  // namespace routeopd::kernels
