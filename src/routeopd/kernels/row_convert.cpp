// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/row_convert.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "routeopd/kernels/row_convert.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "routeopd/kernels/row_elements-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace routeopd::kernels::HWY_NAMESPACE {

template <class T>
void widen_elements(const T* from, std::size_t count, float* to) {
  const hn::CappedTag<float, 16> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(load_as_float(d, from + i), d, to + i);
  for (; i < count; ++i) to[i] = widen(from[i]);
}

HWY_INLINE void round_one(float value, float* to) {
  *to = value;
}
HWY_INLINE void round_one(float value, BFloat16* to) {
  *to = to_bfloat16(value);
}
HWY_INLINE void round_one(float value, Float16* to) {
  *to = to_float16(value);
}

template <class T>
void round_elements(const float* from, std::size_t count, T* to) {
  const hn::CappedTag<float, 16> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) store_rounded(hn::LoadU(d, from + i), d, to + i);
  for (; i < count; ++i) round_one(from[i], to + i);
}

void WidenRow(const RowMatrix& matrix, std::int64_t row, float* to) {
  with_element(matrix.type, [&]<class T>(T) {
    widen_elements(row_at<T>(matrix, row), static_cast<std::size_t>(matrix.width), to);
  });
}

void RoundRow(const float* from, std::int64_t count, RowType type, void* to) {
  with_element(
      type, [&]<class T>(T) { round_elements(from, static_cast<std::size_t>(count), static_cast<T*>(to)); });
}

}  // namespace routeopd::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace routeopd::kernels {

HWY_EXPORT(WidenRow);
HWY_EXPORT(RoundRow);

void widen_row(const RowMatrix& matrix, std::int64_t row, float* to) {
  HWY_DYNAMIC_DISPATCH(WidenRow)(matrix, row, to);
}

void round_row(const float* from, std::int64_t count, RowType type, void* to) {
  HWY_DYNAMIC_DISPATCH(RoundRow)(from, count, type, to);
}

}  // namespace routeopd::kernels
#endif
