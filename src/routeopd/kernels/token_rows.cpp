// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/token_rows.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "routeopd/kernels/token_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "routeopd/kernels/panel-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace routeopd::kernels::HWY_NAMESPACE {

void rms_norm(const float* x, const float* weight, std::int64_t size, float eps, float* y) {
  const F d;
  V squares[kVectors];
  for (int v = 0; v < kVectors; ++v) squares[v] = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 16 <= size; i += 16) {
    for (int v = 0; v < kVectors; ++v) {
      const V value = hn::LoadU(d, part_of(x + i, v));
      squares[v] = hn::MulAdd(value, value, squares[v]);
    }
  }
  float sum = sum_of_lanes(squares);
  for (std::int64_t j = i; j < size; ++j) sum = std::fma(x[j], x[j], sum);
  const float scale = 1 / std::sqrt(sum / static_cast<float>(size) + eps);
  const V scales = hn::Set(d, scale);
  for (i = 0; i + 16 <= size; i += 16) {
    for (int v = 0; v < kVectors; ++v) {
      const V normed = hn::Mul(hn::LoadU(d, part_of(x + i, v)), scales);
      hn::StoreU(hn::Mul(normed, hn::LoadU(d, part_of(weight + i, v))), d, part_of(y + i, v));
    }
  }
  for (; i < size; ++i) y[i] = x[i] * scale * weight[i];
}

void rotate(float* x, const float* cos, const float* sin, std::int64_t planes, float scale) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(kLanes);
  std::int64_t e = 0;
  for (; e + lanes <= planes; e += lanes) {
    const V c = hn::LoadU(d, cos + e), s = hn::LoadU(d, sin + e), factor = hn::Set(d, scale);
    const V first = hn::LoadU(d, x + e), second = hn::LoadU(d, x + planes + e);
    hn::StoreU(hn::Mul(hn::Sub(hn::Mul(first, c), hn::Mul(second, s)), factor), d, x + e);
    hn::StoreU(hn::Mul(hn::Add(hn::Mul(second, c), hn::Mul(first, s)), factor), d, x + planes + e);
  }
  for (; e < planes; ++e) {
    const float first = x[e], second = x[planes + e];
    x[e] = (first * cos[e] - second * sin[e]) * scale;
    x[planes + e] = (second * cos[e] + first * sin[e]) * scale;
  }
}

}  // namespace routeopd::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace routeopd::kernels {

HWY_EXPORT(rms_norm);
HWY_EXPORT(rotate);

void rms_norm_row(const float* x_H, const float* weight_H, std::int64_t size, float eps, float* y_H) {
  HWY_DYNAMIC_DISPATCH(rms_norm)(x_H, weight_H, size, eps, y_H);
}

void rotate_head(float* x_D, const float* cos_E, const float* sin_E, std::int64_t planes, float scale) {
  HWY_DYNAMIC_DISPATCH(rotate)(x_D, cos_E, sin_E, planes, scale);
}

}  // namespace routeopd::kernels
#endif
