// One stretch of memory for all weights of a model, in pages of 2 MB where the system has them: a fresh
// gigabyte costs 512 page faults in place of 262,144, and products that stream through the weights miss fewer
// address translations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace routeopd::model {

class WeightArena {
 public:
  // Room for `floats` float32 numbers. Throws UserError when the system does not have so much memory.
  explicit WeightArena(std::int64_t floats);

  // The next tensor, 64-byte aligned, its values unspecified. It keeps the memory alive.
  at::Tensor take(at::IntArrayRef shape);

  // What a tensor of that many elements takes, padding included.
  static std::int64_t floats_of(std::int64_t elements) { return (elements + 15) / 16 * 16; }

 private:
  std::shared_ptr<float> memory_;
  std::int64_t size_, used_ = 0;
};

}  // namespace routeopd::model
