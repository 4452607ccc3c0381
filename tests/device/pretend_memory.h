// The memory of the pretend device: pages that are closed to the host, and opened for the time of a kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>
#include <vector>

namespace routeopd::pretend {

c10::Allocator& allocator();

// Bytes allocated now, whole pages.
std::int64_t allocated_bytes();

// Opens blocks of the device's memory while it lives. Several may have the same block open.
class Opened {
 public:
  Opened() = default;
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened();

  // The block in which `data` lies; nothing happens for memory that is not the device's.
  void open(const void* data);

 private:
  std::vector<std::uintptr_t> blocks_;
};

}  // namespace routeopd::pretend
