// Rows widened to float32, which is exact, and float32 rows rounded to the type of a weight: to nearest, ties
// to even, too large to infinity, NaN to a quiet NaN. The same bits on every processor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "routeopd/kernels/row_matrix.h"

namespace routeopd::kernels {

// One element, in plain integers: the specification of the rows below.
inline float widen(float value) {
  return value;
}
inline float widen(BFloat16 value) {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16);
}
inline float widen(Float16 value) {
  const std::uint32_t sign = std::uint32_t{value.bits & 0x8000U} << 16;
  const std::uint32_t exponent = value.bits >> 10 & 0x1fU, fraction = value.bits & 0x3ffU;
  if (exponent == 0) {  // 0 or subnormal: units of 2^-24
    const float size = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(size));
  }
  if (exponent == 31) {  // a signalling NaN becomes a quiet one, as F16C has it
    const std::uint32_t quiet = fraction == 0 ? 0 : 0x400000U;
    return std::bit_cast<float>(sign | 0x7f800000U | quiet | fraction << 13);
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

inline BFloat16 to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<std::uint16_t>(bits >> 16 | 0x40)};
  return {static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

inline Float16 to_float16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value), size = bits & 0x7fffffffU;
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  std::uint32_t half = 0x7c00;
  if (size > 0x7f800000U) {
    half = 0x7e00 | (size >> 13 & 0x3ffU);
  } else if (size < 0x38800000U) {
    // Below 2^-14: a unit in the last place of 1/2 is 2^-24, that of the subnormals.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5F) - 0x3f000000U;
  } else if (size < 0x47800000U) {  // below 2^16; what rounds up to that carries into infinity
    half = (size - 0x38000000U + 0xfff + (size >> 13 & 1)) >> 13;
  }
  return {static_cast<std::uint16_t>(sign | half)};
}

// to[i] = row[i], i < matrix.width.
void widen_row(const RowMatrix& matrix, std::int64_t row, float* to);

// to[i] = from[i] as an element of the type, i < count.
void round_row(const float* from, std::int64_t count, RowType type, void* to);

}  // namespace routeopd::kernels
