// A static split of [0, count) over threads, for the layers without torch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace routeopd {

// Calls work(begin, end) on at most `threads` disjoint ranges that cover [0, count); the caller's thread
// takes one of them. No range is shorter than `grain`, since starting a thread takes about 20 microseconds.
// The first exception of a range is rethrown after all have ended.
void parallel_ranges(std::int64_t count, std::int64_t grain, int threads,
                     const std::function<void(std::int64_t begin, std::int64_t end)>& work);

}  // namespace routeopd
