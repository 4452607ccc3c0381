// The processor that the program runs on as a device of a plan: measured in about six seconds, since no
// datasheet says what the cores of a virtual machine reach.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routeopd/scale/device.h"

namespace routeopd::run {

// The sustained rates of float32 products, LibTorch's (the learner's) and the engine's own, and of reading
// memory, with as many threads as a run has. Nothing here computes faster in bfloat16. The network is
// assumed: 10 Gb/s.
scale::Device measured_cpu();

}  // namespace routeopd::run
