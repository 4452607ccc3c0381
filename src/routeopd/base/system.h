// The processor, which every measured time names, and the memory of this process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace routeopd {

// The processor's model name, as the system reports it.
std::string cpu_model();

// The instruction set that our kernels use here, by Highway's name, such as "AVX2" or "AVX3_ZEN4".
std::string kernel_target();

// Memory in bytes; 0 where the system does not report it.
std::int64_t resident_bytes();       // of this process, now
std::int64_t peak_resident_bytes();  // the largest since the process began or since reset_peak_resident()
std::int64_t available_bytes();      // what the system, and the group of the process, leave

// Returns free memory to the system, so that later work is charged for all it takes, and restarts the peak.
void reset_peak_resident();

// Bytes by which the peak during `work` exceeds the resident size before it.
template <class Work>
std::int64_t peak_growth(const Work& work) {
  reset_peak_resident();
  const std::int64_t before = resident_bytes();
  work();
  return peak_resident_bytes() - before;
}

}  // namespace routeopd
