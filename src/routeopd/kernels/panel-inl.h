// What the kernels over panels of 16 columns share: 16 floats as one, two or four vectors. Written for all
// widths at once, so that a sum over lanes has the same order, and the same last bit, on every processor.
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
#include <type_traits>

// Sums live in registers only when every loop over them is unrolled.
#undef ROUTEOPD_UNROLL
#define ROUTEOPD_UNROLL _Pragma("GCC unroll 24")

HWY_BEFORE_NAMESPACE();
namespace routeopd::kernels::HWY_NAMESPACE {

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

// Calls body(std::integral_constant<int, R>, first row) on strips of R <= 6 rows, nearly equal ones: as many
// as sums of 16 columns find room in the registers of AVX2.
template <class Body>
HWY_INLINE void in_strips(std::int64_t rows, const Body& body) {
  const std::int64_t strips = (rows + 5) / 6;
  for (std::int64_t s = 0; s < strips; ++s) {
    const std::int64_t r = rows * s / strips;
    switch (rows * (s + 1) / strips - r) {
      case 1:
        body(std::integral_constant<int, 1>(), r);
        break;
      case 2:
        body(std::integral_constant<int, 2>(), r);
        break;
      case 3:
        body(std::integral_constant<int, 3>(), r);
        break;
      case 4:
        body(std::integral_constant<int, 4>(), r);
        break;
      case 5:
        body(std::integral_constant<int, 5>(), r);
        break;
      default:
        body(std::integral_constant<int, 6>(), r);
        break;
    }
  }
}

}  // namespace routeopd::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
