// What the processor offers, in words: a time means nothing without it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace routeopd {

// The processor's model name, as the system tells it.
std::string cpu_model();

// The instruction set our kernels run on here, by Highway's name, such as "AVX2" or "AVX3_ZEN4".
std::string kernel_target();

}  // namespace routeopd
