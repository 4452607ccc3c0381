// A pretend accelerator: the PrivateUse1 backend of LibTorch under the name "pretend", for tests of what
// runs on a device where none is at hand. Its memory is pages that nobody may touch except while one of its
// kernels runs: a host pointer into it ends the process (SIGSEGV), and an operation on tensors of both
// sides throws. A kernel is the CPU's, on a view of the same memory, so that a device changes no bit by
// itself.
//
// Fresh memory is filled with bytes 0xFF, which are NaN in every floating type: what reads before it writes
// is seen.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace routeopd {

// "pretend:0", the only one. It exists in every program that links pretend_device.cpp.
at::Device pretend_device();

// What has happened since the program began.
struct PretendCounts {
  std::int64_t kernels = 0;          // operations that ran on the device
  std::int64_t fused_attention = 0;  // forwards of its fused attention, causal and without a mask
  std::int64_t to_device = 0;        // copies from the host
  std::int64_t to_host = 0;          // copies to the host
  std::int64_t bytes = 0;            // allocated now
};
PretendCounts pretend_counts();

}  // namespace routeopd
