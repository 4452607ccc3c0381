// A static split of [0, count) over threads, for the layers that know nothing of torch.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace routeopd {

// Calls work(begin, end) on at most `threads` disjoint ranges that cover [0, count); the caller's thread
// takes one of them. Ranges shorter than `grain` are not split off: a thread costs about 20 microseconds to
// start. The first exception of a range is rethrown once all have ended.
void parallel_ranges(std::int64_t count, std::int64_t grain, int threads,
                     const std::function<void(std::int64_t begin, std::int64_t end)>& work);

}  // namespace routeopd
