// Loads of float32, bfloat16 and float16 as vectors of float32, and the way back, once per instruction set.
// SPDX-License-Identifier: Apache-2.0
#if defined(ROUTEOPD_ROW_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROUTEOPD_ROW_ELEMENTS_INL_H_
#undef ROUTEOPD_ROW_ELEMENTS_INL_H_
#else
#define ROUTEOPD_ROW_ELEMENTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "routeopd/kernels/row_convert.h"
#include "routeopd/kernels/row_matrix.h"

// Highway's own conversions of float16 are right where the processor has them (F16C). Elsewhere 1.0.3 widens
// infinities and NaN to finite values, and rounds toward zero.
#undef ROUTEOPD_HAS_F16C
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
#define ROUTEOPD_HAS_F16C 1
#else
#define ROUTEOPD_HAS_F16C 0
#endif

HWY_BEFORE_NAMESPACE();
namespace routeopd::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// D: a tag of float.
template <class D>
HWY_INLINE hn::Vec<D> load_as_float(D d, const float* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> load_as_float(D d, const BFloat16* from) {
  const hn::Rebind<std::uint32_t, D> wide;
  const hn::Rebind<std::uint16_t, D> narrow;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(narrow, &from->bits))));
}

template <class D>
HWY_INLINE hn::Vec<D> load_as_float(D d, const Float16* from) {
  const hn::Rebind<std::uint16_t, D> narrow;
  const hn::Rebind<hwy::float16_t, D> half;
  const auto value = hn::PromoteTo(d, hn::BitCast(half, hn::LoadU(narrow, &from->bits)));
#if ROUTEOPD_HAS_F16C
  return value;
#else
  // An exponent of all ones came out as that of 2^16, which no finite float16 reaches.
  const hn::Rebind<std::uint32_t, D> wide;
  const auto special = hn::Or(hn::BitCast(wide, value), hn::Set(wide, 0x7f800000U));
  return hn::IfThenElse(hn::Ge(hn::Abs(value), hn::Set(d, 0x1p16F)), hn::BitCast(d, special), value);
#endif
}

template <class D>
HWY_INLINE void store_rounded(hn::Vec<D> value, D d, float* to) {
  hn::StoreU(value, d, to);
}

template <class D>
HWY_INLINE void store_rounded(hn::Vec<D> value, D /*d*/, BFloat16* to) {
  const hn::Rebind<std::uint32_t, D> wide;
  const hn::Rebind<std::int32_t, D> number;
  const hn::Rebind<std::uint16_t, D> narrow;
  const auto bits = hn::BitCast(wide, value), upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(wide, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(hn::Set(wide, 0x7fff), odd)));
  const auto quiet = hn::Or(upper, hn::Set(wide, 0x40));
  const auto is_number = hn::RebindMask(wide, hn::Eq(value, value));
  const auto result = hn::IfThenElse(is_number, rounded, quiet);
  hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(number, result)), narrow, &to->bits);
}

template <class D>
HWY_INLINE void store_rounded(hn::Vec<D> value, D d, Float16* to) {
#if ROUTEOPD_HAS_F16C
  (void)d;
  const hn::Rebind<std::uint16_t, D> narrow;
  const hn::Rebind<hwy::float16_t, D> half;
  hn::StoreU(hn::BitCast(narrow, hn::DemoteTo(half, value)), narrow, &to->bits);
#else
  HWY_ALIGN float values[hn::MaxLanes(D())];
  hn::Store(value, d, values);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) to[i] = to_float16(values[i]);
#endif
}

}  // namespace routeopd::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
