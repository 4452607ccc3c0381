// What this process holds of the machine's memory, and what is left.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace routeopd {

std::int64_t resident_bytes();  // now; 0 where the system does not tell

// The largest resident size since the process began, or since the last reset.
std::int64_t peak_resident_bytes();

// What the system could give without swapping; 0 where it does not tell.
std::int64_t available_bytes();

// Gives free memory back, so that later work cannot have it for nothing, and counts the peak anew.
void reset_peak_resident();

// Bytes by which the resident size peaks above what it was before `work`.
template <class Work>
std::int64_t peak_growth(const Work& work) {
  reset_peak_resident();
  const std::int64_t before = resident_bytes();
  work();
  return peak_resident_bytes() - before;
}

}  // namespace routeopd
