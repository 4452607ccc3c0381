// How the loops of this library use threads: the caller hands in its own. LibTorch's pool, the threads of
// base/parallel.h or none at all give the same bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "routeopd/base/parallel.h"

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

// Threads started for each loop and joined at its end.
inline ParallelFor in_threads(int threads) {
  return {.threads = threads,
          .run = [threads](std::int64_t begin, std::int64_t end, std::int64_t grain,
                           const ParallelFor::Work& work) {
            parallel_ranges(end - begin, grain, threads, [&](std::int64_t first, std::int64_t last) {
              work(begin + first, begin + last);
            });
          }};
}

}  // namespace routeopd::kernels
