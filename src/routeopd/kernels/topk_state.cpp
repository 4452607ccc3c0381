// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/topk_state.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace routeopd::kernels {

void LogSum::add(const LogSum& other) {
  if (other.scaled == 0.0) return;
  if (scaled == 0.0) {
    *this = other;
  } else if (!std::isfinite(scaled) || !std::isfinite(other.scaled)) {
    scaled += other.scaled;
  } else if (exponent >= other.exponent) {
    const double shift = other.exponent - exponent, factor = std::exp2(shift);
    weighted += (other.weighted + shift * other.scaled) * factor;
    scaled += other.scaled * factor;
  } else {
    const double shift = exponent - other.exponent, factor = std::exp2(shift);
    weighted = (weighted + shift * scaled) * factor + other.weighted;
    scaled = scaled * factor + other.scaled;
    exponent = other.exponent;
  }
}

double LogSum::log() const {
  return (exponent + std::log2(scaled)) / static_cast<double>(kLog2e);
}

double LogSum::entropy() const {
  if (!(scaled > 0.0) || !std::isfinite(scaled)) return std::numeric_limits<double>::quiet_NaN();
  return (std::log2(scaled) - weighted / scaled) / static_cast<double>(kLog2e);
}

LogSum LogSum::of(const float* x, std::size_t n) {
  const float inf = std::numeric_limits<float>::infinity();
  float max = -inf;
  for (std::size_t i = 0; i < n; ++i) {
    if (std::isnan(x[i])) return {std::numeric_limits<double>::quiet_NaN(), 0.0};
    max = std::max(max, x[i]);
  }
  if (max == inf) return {inf, 0.0};
  if (max == -inf) return {};
  LogSum sum{0.0, std::nearbyint(static_cast<double>(max) * kLog2e)};
  for (std::size_t i = 0; i < n; ++i) {
    const double y = static_cast<double>(x[i]) * kLog2e - sum.exponent, term = std::exp2(y);
    sum.scaled += term;
    if (term > 0) sum.weighted += y * term;  // -inf times 0 is no number
  }
  return sum;
}

void RowTopk::compact() {
  std::nth_element(keys, keys + k - 1, keys + count, std::greater<>());
  count = k;
  floor_key = std::max(floor_key, keys[k - 1]);
  threshold = key_value(floor_key);
}

void RowTopk::merge(const RowTopk& other) {
  for (std::int32_t i = 0; i < other.count; ++i) push(other.keys[i]);
}

void RowTopk::finish(float* values, std::int32_t* ids) {
  if (count > k) compact();
  std::sort(keys, keys + count, std::greater<>());
  for (std::int32_t i = 0; i < k; ++i) {
    values[i] = i < count ? key_value(keys[i]) : -std::numeric_limits<float>::infinity();
    ids[i] = i < count ? static_cast<std::int32_t>(~static_cast<std::uint32_t>(keys[i])) : -1;
  }
}

}  // namespace routeopd::kernels
