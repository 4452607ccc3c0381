// What the kernels over panels of 16 columns share: 16 floats as one, two or four vectors. Written for all widths at
// once, so that a sum over lanes has the same order, and the same last bit, on every processor.
//
// SPDX-License-Identifier: Apache-2.0
#if defined(ROUTEOPD_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROUTEOPD_PANEL_INL_H_
#undef ROUTEOPD_PANEL_INL_H_
#else
#define ROUTEOPD_PANEL_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

// Sums live in registers only when every loop over them is unrolled.
#undef ROUTEOPD_UNROLL
#define ROUTEOPD_UNROLL _Pragma("GCC unroll 24")

HWY_BEFORE_NAMESPACE();
namespace routeopd::model::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F = hn::CappedTag<float, 16>;
using V = hn::Vec<F>;

constexpr std::size_t kLanes = hn::MaxLanes(F());
constexpr int kVectors = static_cast<int>(16 / kLanes);

// Vector v of the 16 floats at `from`.
HWY_INLINE const float* part_of(const float* from, int v) {
  return from + static_cast<std::size_t>(v) * kLanes;
}
HWY_INLINE float* part_of(float* from, int v) {
  return from + static_cast<std::size_t>(v) * kLanes;
}

// The sum of 16 lanes, from the first to the last.
HWY_INLINE float sum_of_lanes(const V (&parts)[kVectors]) {
  HWY_ALIGN float lanes[16];
  for (int v = 0; v < kVectors; ++v) hn::Store(parts[v], F(), part_of(lanes, v));
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

}  // namespace routeopd::model::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
