// Registers hold R rows by P panels of sums (at most kSums vectors of them); a panel's chunk of 256 inputs
// stays in the first-level cache while the rows pass by.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/packed_gemm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <vector>

#include "routeopd/kernels/row_convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "routeopd/kernels/packed_gemm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include <hwy/contrib/math/math-inl.h>
#include "routeopd/kernels/panel-inl.h"
// clang-format on

#ifndef ROUTEOPD_PACKED_GEMM_ONCE
#define ROUTEOPD_PACKED_GEMM_ONCE
namespace routeopd::kernels {
namespace {
constexpr std::int64_t kAhead = 512;     // weights fetched ahead of their use
constexpr std::int64_t kRowBlock = 96;   // rows whose inputs are to stay in the second-level cache
constexpr std::int64_t kMaxPanels = 12;  // handled at a time
}  // namespace
}  // namespace routeopd::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace routeopd::kernels::HWY_NAMESPACE {

constexpr int kSums = HWY_TARGET <= HWY_AVX3 ? 24 : 12;  // of 32 or 16 registers

HWY_INLINE V load_weights(const float* from) {
  return hn::Load(F(), from);
}

// A bfloat16 is the upper half of the float32 of the same value.
HWY_INLINE V load_weights(const std::uint16_t* from) {
  const hn::RebindToUnsigned<F> wide;
  const hn::Rebind<std::uint16_t, F> narrow;
  return hn::BitCast(F(), hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(narrow, from))));
}

// A chunk of inputs of several panels, and the rows that meet it.
template <class T>
struct Chunk {
  const T* panels;
  std::int64_t panel_stride, count;  // of the panels
  std::int64_t depth;                // inputs
  const float* x;
  std::int64_t x_stride;
  float* sums;              // [rows, count * 16]
  bool first;               // nothing is in the sums yet
  std::int64_t ahead_step;  // weights a strip prefetches per input; all strips together fetch the next chunk
};

// sums[r][p * 16 + j] (+)= sum over k of x[r][k] * panel_p[k * 16 + j], for R rows from `row` and P panels
// from `panel`.
template <int R, int P, class T>
HWY_INLINE void micro(const Chunk<T>& chunk, std::int64_t row, std::int64_t panel, std::int64_t fetched) {
  const F d;
  const float* HWY_RESTRICT x = chunk.x + row * chunk.x_stride;
  const T* HWY_RESTRICT panels = chunk.panels + panel * chunk.panel_stride;
  const T* ahead = panels + fetched;
  V sum[R][P * kVectors];
  ROUTEOPD_UNROLL for (int r = 0; r < R; ++r) {
    ROUTEOPD_UNROLL for (int v = 0; v < P * kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  for (std::int64_t k = 0; k < chunk.depth; ++k) {
    V weight[P * kVectors];
    if constexpr (R > 3) {
      __builtin_prefetch(ahead, 0, 2);
      ahead += chunk.ahead_step;
    }
    ROUTEOPD_UNROLL for (int p = 0; p < P; ++p) {
      const T* const at = panels + p * chunk.panel_stride + k * kPanelWidth;
      if constexpr (R <= 3) __builtin_prefetch(at + kAhead);
      ROUTEOPD_UNROLL for (int v = 0; v < kVectors; ++v) weight[p * kVectors + v] =
          load_weights(at + static_cast<std::size_t>(v) * kLanes);
    }
    ROUTEOPD_UNROLL for (int r = 0; r < R; ++r) {
      const V value = hn::Set(d, x[r * chunk.x_stride + k]);
      ROUTEOPD_UNROLL for (int v = 0; v < P * kVectors; ++v) sum[r][v] =
          hn::MulAdd(value, weight[v], sum[r][v]);
    }
  }
  float* const sums = chunk.sums + (row * chunk.count + panel) * kPanelWidth;
  ROUTEOPD_UNROLL for (int r = 0; r < R; ++r) {
    ROUTEOPD_UNROLL for (int v = 0; v < P * kVectors; ++v) {
      float* const at = part_of(sums + r * chunk.count * kPanelWidth, v);
      hn::Store(chunk.first ? sum[r][v] : hn::Add(hn::Load(d, at), sum[r][v]), d, at);
    }
  }
}

// R rows by all panels of the chunk.
template <int R, class T>
HWY_NOINLINE void strip(const Chunk<T>& chunk, std::int64_t row, std::int64_t fetched) {
  constexpr int P = std::max(1, kSums / (R * kVectors));
  std::int64_t panel = 0;
  for (; panel + P <= chunk.count; panel += P) micro<R, P>(chunk, row, panel, fetched);
  for (; panel < chunk.count; ++panel) micro<R, 1>(chunk, row, panel, fetched);
}

// x / (1 + exp(-z)). exp is good up to 104: beyond e^88 the quotient is 0 to float32 anyway. NaN comes
// through the numerator.
HWY_INLINE V times_sigmoid(V x, V z) {
  const F d;
  const V power = hn::Min(hn::Neg(z), hn::Set(d, 88.0F));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0F), hn::Exp(d, power)));
}

HWY_INLINE V gate_of(Epilogue epilogue, V x) {
  if (epilogue == Epilogue::kGatedSilu) return times_sigmoid(x, x);
  const F d;
  const V slope = hn::MulAdd(hn::Mul(x, x), hn::Set(d, kGelu3), hn::Set(d, kGelu1));
  return times_sigmoid(x, hn::Min(hn::Mul(x, slope), hn::Set(d, 88.0F)));  // no infinity for exp
}

// Writes the 16 values of a panel; the last panel of an output may be narrower.
HWY_INLINE void put(const V (&values)[kVectors], std::int64_t width, bool add, float* HWY_RESTRICT y) {
  const F d;
  const auto whole = [&](float* to) HWY_ATTR {
    for (int v = 0; v < kVectors; ++v) {
      float* const at = part_of(to, v);
      hn::StoreU(add ? hn::Add(hn::LoadU(d, at), values[v]) : values[v], d, at);
    }
  };
  if (width >= kPanelWidth) return whole(y);
  HWY_ALIGN float part[kPanelWidth] = {};
  std::copy_n(y, width, part);
  whole(part);
  std::copy_n(part, width, y);
}

// From the sums of `count` panels to the outputs of a row.
HWY_INLINE void finish_row(const Product& product, const float* HWY_RESTRICT sums, std::int64_t panel,
                           std::int64_t count, float* HWY_RESTRICT y) {
  const F d;
  const auto with_bias = [&](std::int64_t p, int v) HWY_ATTR {
    const std::int64_t column = p * kPanelWidth + v * static_cast<std::int64_t>(kLanes);
    const V sum = hn::Load(d, sums + column);
    return product.bias_panels == nullptr
               ? sum
               : hn::Add(sum, hn::LoadU(d, product.bias_panels + panel * kPanelWidth + column));
  };
  V values[kVectors];
  if (is_gated(product.epilogue)) {
    for (std::int64_t p = 0; p < count; p += 2) {
      for (int v = 0; v < kVectors; ++v)
        values[v] = hn::Mul(gate_of(product.epilogue, with_bias(p, v)), with_bias(p + 1, v));
      const std::int64_t at = (panel + p) / 2 * kPanelWidth;
      put(values, product.outputs - at, false, y + at);
    }
    return;
  }
  for (std::int64_t p = 0; p < count; ++p) {
    for (int v = 0; v < kVectors; ++v) values[v] = with_bias(p, v);
    const std::int64_t at = (panel + p) * kPanelWidth;
    put(values, product.outputs - at, product.epilogue == Epilogue::kAdd, y + at);
  }
}

template <class T>
void multiply_of(const Product& product, const float* x_MK, std::int64_t rows, std::int64_t x_stride,
                 std::int64_t begin, std::int64_t end, float* y_MN, std::int64_t y_stride) {
  const std::int64_t inputs = product.weight.inputs, panel_stride = inputs * kPanelWidth;
  const T* const panels = static_cast<const T*>(product.weight.panels);
  // Few rows: several panels at a time, so that enough sums are under way to hide the latency of an addition.
  const std::int64_t at_a_time = rows <= 3 ? kMaxPanels : 2;
  HWY_ALIGN float sums[kRowBlock * 2 * kPanelWidth];
  for (std::int64_t m = 0; m < rows; m += kRowBlock) {
    const std::int64_t block = std::min(kRowBlock, rows - m), strips = (block + 5) / 6;
    for (std::int64_t p = begin; p < end; p += at_a_time) {
      const std::int64_t count = std::min(at_a_time, end - p), sums_stride = count * kPanelWidth;
      for (std::int64_t k = 0; k < inputs; k += kSumChunk) {
        const Chunk<T> chunk{.panels = panels + p * panel_stride + k * kPanelWidth,
                             .panel_stride = panel_stride,
                             .count = count,
                             .depth = std::min(kSumChunk, inputs - k),
                             .x = x_MK + m * x_stride + k,
                             .x_stride = x_stride,
                             .sums = sums,
                             .first = k == 0,
                             .ahead_step = (kPanelWidth + strips - 1) / strips};
        in_strips(block, [&](auto width, std::int64_t r) HWY_ATTR {
          strip<decltype(width)::value>(chunk, r, (kSumChunk + kSumChunk * r / block) * kPanelWidth);
        });
      }
      for (std::int64_t r = 0; r < block; ++r)
        finish_row(product, sums + r * sums_stride, p, count, y_MN + (m + r) * y_stride);
    }
  }
}

void multiply(const Product& product, const float* x_MK, std::int64_t rows, std::int64_t x_stride,
              std::int64_t begin, std::int64_t end, float* y_MN, std::int64_t y_stride) {
  (product.weight.is_bfloat16 ? multiply_of<std::uint16_t> : multiply_of<float>)(product, x_MK, rows,
                                                                                 x_stride, begin, end, y_MN,
                                                                                 y_stride);
}

}  // namespace routeopd::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace routeopd::kernels {

HWY_EXPORT(multiply);

namespace {

float value_at(const PackedWeight& weight, std::int64_t at) {
  if (!weight.is_bfloat16) return static_cast<const float*>(weight.panels)[at];
  return std::bit_cast<float>(std::uint32_t{static_cast<const std::uint16_t*>(weight.panels)[at]} << 16);
}

}  // namespace

bool is_exact_in_bfloat16(const float* values, std::int64_t count) {
  std::uint32_t low = 0;
  for (std::int64_t i = 0; i < count; ++i) low |= std::bit_cast<std::uint32_t>(values[i]);
  return (low & 0xffff) == 0;
}

void pack_panel(const PanelRows& rows, const PackedWeight& shape, std::int64_t panel, void* panels) {
  const std::vector<float> zeros(static_cast<std::size_t>(shape.inputs));
  PanelRows from = rows;
  for (const float*& row : from)
    if (row == nullptr) row = zeros.data();
  const std::int64_t first = panel * shape.inputs * kPanelWidth;
  const auto lay_out = [&](auto* to, const auto& convert) {
    for (std::int64_t k = 0; k < shape.inputs; ++k)
      for (std::size_t j = 0; j < from.size(); ++j) *to++ = convert(from[j][k]);
  };
  if (shape.is_bfloat16) {
    lay_out(static_cast<BFloat16*>(panels) + first, to_bfloat16);
  } else {
    lay_out(static_cast<float*>(panels) + first, [](float value) { return value; });
  }
}

Product panels_of(const Product& product, std::int64_t first, std::int64_t count) {
  Product part = product;
  const std::int64_t bytes = product.weight.inputs * kPanelWidth * (product.weight.is_bfloat16 ? 2 : 4);
  part.weight.panels = static_cast<const std::byte*>(product.weight.panels) + first * bytes;
  part.weight.panel_count = std::min(count, product.weight.panel_count - first);
  const std::int64_t panel_outputs = kPanelWidth / (is_gated(product.epilogue) ? 2 : 1);
  part.outputs = std::min(part.weight.panel_count * panel_outputs, product.outputs - first * panel_outputs);
  if (product.bias_panels != nullptr) part.bias_panels = product.bias_panels + first * kPanelWidth;
  return part;
}

void reference_multiply(const Product& product, const float* x_MK, std::int64_t rows, std::int64_t x_stride,
                        float* y_MN, std::int64_t y_stride) {
  const PackedWeight& weight = product.weight;
  const auto sum_of = [&](const float* x, std::int64_t panel, std::int64_t j) {
    float total = 0;
    for (std::int64_t first = 0; first < weight.inputs; first += kSumChunk) {
      float part = 0;
      for (std::int64_t k = first; k < std::min(first + kSumChunk, weight.inputs); ++k)
        part = std::fma(x[k], value_at(weight, (panel * weight.inputs + k) * kPanelWidth + j), part);
      total = first == 0 ? part : total + part;
    }
    return product.bias_panels == nullptr ? total : total + product.bias_panels[panel * kPanelWidth + j];
  };
  for (std::int64_t m = 0; m < rows; ++m) {
    const float* const x = x_MK + m * x_stride;
    for (std::int64_t n = 0; n < product.outputs; ++n) {
      const std::int64_t panel = n / kPanelWidth, j = n % kPanelWidth;
      float& y = y_MN[m * y_stride + n];
      if (is_gated(product.epilogue)) {
        const float gate = sum_of(x, 2 * panel, j), up = sum_of(x, 2 * panel + 1, j);
        const float z =
            product.epilogue == Epilogue::kGatedSilu ? gate : gate * std::fma(gate * gate, kGelu3, kGelu1);
        y = gate / (1 + std::exp(-z)) * up;
      } else if (product.epilogue == Epilogue::kAdd) {
        y += sum_of(x, panel, j);
      } else {
        y = sum_of(x, panel, j);
      }
    }
  }
}

void multiply_panels(const Product& product, const float* x_MK, std::int64_t rows, std::int64_t x_stride,
                     std::int64_t begin, std::int64_t end, float* y_MN, std::int64_t y_stride) {
  HWY_DYNAMIC_DISPATCH(multiply)(product, x_MK, rows, x_stride, begin, end, y_MN, y_stride);
}

}  // namespace routeopd::kernels
#endif
