// The device that the learner works on, by its name in a recipe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

namespace routeopd::train {

// Throws UserError for what names no device: "cpu", "cuda", "cuda:N", and a backend that was added to
// LibTorch under a name of its own do. Whether it is there, device_named() says.
void check_device_name(const std::string& name);

// The device, with its number: "cuda" is the process's current one. Throws UserError where this LibTorch or
// this machine does not have it.
at::Device device_named(const std::string& name);

// Free bytes of its memory; 0: not known.
std::int64_t free_bytes(at::Device device);

}  // namespace routeopd::train
