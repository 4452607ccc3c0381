// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/head_tiles.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "routeopd/kernels/packed_gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "routeopd/kernels/head_tiles.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include <hwy/contrib/math/math-inl.h>
#include "routeopd/kernels/row_elements-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace routeopd::kernels::HWY_NAMESPACE {

// Four columns of four rows, transposed: to[c * 16 + r] = rows[r][c].
template <class T>
HWY_INLINE void transpose_four(const T* const* rows, std::size_t column, float* HWY_RESTRICT to) {
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t c = 0; c < 4; ++c)
    for (std::size_t r = 0; r < 4; ++r) to[c * kPanelWidth + r] = widen(rows[r][column + c]);
#else
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> pairs;
  const auto r0 = load_as_float(d, rows[0] + column), r1 = load_as_float(d, rows[1] + column);
  const auto r2 = load_as_float(d, rows[2] + column), r3 = load_as_float(d, rows[3] + column);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));  // r0[0] r1[0] r0[1] r1[1]
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  hn::Store(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + kPanelWidth);
  hn::Store(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * kPanelWidth);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * kPanelWidth);
#endif
}

template <class T>
void pack_panel_of(const T* const* rows, std::size_t width, float* HWY_RESTRICT panel) {
  constexpr std::size_t kLine = 64 / sizeof(T);  // columns: a cache line of each of the 16 rows at a time
  std::size_t k = 0;
  for (; k + kLine <= width; k += kLine) {
    for (std::size_t r = 0; r < kPanelWidth; r += 4) {
      for (std::size_t c = k; c < k + kLine; c += 4) transpose_four(rows + r, c, panel + c * kPanelWidth + r);
    }
  }
  for (; k < width; ++k) {
    for (std::size_t r = 0; r < kPanelWidth; ++r) panel[k * kPanelWidth + r] = widen(rows[r][k]);
  }
}

void PackRows(const RowMatrix& weight, std::int64_t first, std::int64_t count, float* panels) {
  with_element(weight.type, [&]<class T>(T) {
    for (std::int64_t p = 0; p < count; p += kPanelWidth) {
      const T* rows[kPanelWidth];
      for (std::int64_t r = 0; r < kPanelWidth; ++r)
        rows[r] = row_at<T>(weight, first + std::min(p + r, count - 1));
      pack_panel_of(rows, static_cast<std::size_t>(weight.width), panels + p * weight.width);
    }
  });
}

using LogitTag = hn::CappedTag<float, 16>;

template <bool kCap>
HWY_INLINE hn::Vec<LogitTag> transformed(hn::Vec<LogitTag> product, float scale, float softcap) {
  const LogitTag d;
  const auto z = hn::Mul(product, hn::Set(d, scale));
  if constexpr (!kCap) return z;
  const auto cap = hn::Set(d, softcap);
  return hn::Mul(cap, hn::Tanh(d, hn::Div(z, cap)));
}

template <bool kCap>
void transform_row(const LogitTransform& transform, std::int64_t first, std::size_t width, float* row) {
  const LogitTag d;
  const std::size_t lanes = hn::Lanes(d);
  const auto apply = [&](const float* bias, float* at) HWY_ATTR {
    auto product = hn::LoadU(d, at);
    if (bias != nullptr) product = hn::Add(product, hn::LoadU(d, bias));
    hn::StoreU(transformed<kCap>(product, transform.scale, transform.softcap), d, at);
  };
  const float* const bias = transform.bias == nullptr ? nullptr : transform.bias + first;
  std::size_t i = 0;
  for (; i + lanes <= width; i += lanes) apply(bias == nullptr ? nullptr : bias + i, row + i);
  if (i == width) return;
  HWY_ALIGN float rest[16] = {}, rest_bias[16] = {};
  std::copy(row + i, row + width, rest);
  if (bias != nullptr) std::copy(bias + i, bias + width, rest_bias);
  apply(bias == nullptr ? nullptr : rest_bias, rest);
  std::copy_n(rest, width - i, row + i);
}

void TransformLogits(const LogitTransform& transform, std::int64_t first, std::int64_t rows,
                     std::int64_t width, std::int64_t stride, float* logits) {
  const auto run = transform.softcap == 0 ? transform_row<false> : transform_row<true>;
  for (std::int64_t r = 0; r < rows; ++r)
    run(transform, first, static_cast<std::size_t>(width), logits + r * stride);
}

}  // namespace routeopd::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace routeopd::kernels {

HWY_EXPORT(PackRows);
HWY_EXPORT(TransformLogits);

void pack_rows(const RowMatrix& weight, std::int64_t first, std::int64_t count, float* panels) {
  HWY_DYNAMIC_DISPATCH(PackRows)(weight, first, count, panels);
}

void transform_logits(const LogitTransform& transform, std::int64_t first, std::int64_t rows,
                      std::int64_t width, std::int64_t stride, float* logits) {
  if (transform.is_identity()) return;
  HWY_DYNAMIC_DISPATCH(TransformLogits)(transform, first, rows, width, stride, logits);
}

void reference_transform_logits(const LogitTransform& transform, std::int64_t first, std::int64_t rows,
                                std::int64_t width, std::int64_t stride, float* logits) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < width; ++i) {
      float& logit = logits[r * stride + i];
      if (transform.bias != nullptr) logit += transform.bias[first + i];
      logit *= transform.scale;
      if (transform.softcap != 0) logit = transform.softcap * std::tanh(logit / transform.softcap);
    }
  }
}

}  // namespace routeopd::kernels
#endif
