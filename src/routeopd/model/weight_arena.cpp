// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/weight_arena.h"

#include <sys/mman.h>

#include "routeopd/base/error.h"

namespace routeopd::model {
namespace {

constexpr std::size_t kHugePage = 2 << 20;

}  // namespace

WeightArena::WeightArena(std::int64_t floats) : size_(floats) {
  const std::size_t bytes =
      (static_cast<std::size_t>(floats) * sizeof(float) + kHugePage - 1) / kHugePage * kHugePage;
  const std::size_t mapped = bytes + kHugePage;  // room to begin at a multiple of 2 MB
  void* const start = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED)
    throw UserError(
        "memory: expected {:.1f} GB for weights or keys and values, got none; try a smaller model or "
        "kv_memory",
        static_cast<double>(mapped) / 1e9);
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  auto* const first = reinterpret_cast<float*>((address + kHugePage - 1) / kHugePage * kHugePage);
  ::madvise(first, bytes, MADV_HUGEPAGE);  // a request: small pages work too
  memory_ = {first, [start, mapped](float*) { ::munmap(start, mapped); }};
}

at::Tensor WeightArena::take(at::IntArrayRef shape) {
  const std::int64_t floats = floats_of(c10::multiply_integers(shape));
  ROUTEOPD_INVARIANT(used_ + floats <= size_);
  float* const first = memory_.get() + used_;
  used_ += floats;
  return at::from_blob(first, shape, [memory = memory_](void*) {}, at::kFloat);
}

}  // namespace routeopd::model
