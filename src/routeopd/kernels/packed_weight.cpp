// The plain parts of the packed product: the layout, and the product in loops.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <vector>

#include "routeopd/kernels/packed_gemm.h"

namespace routeopd::kernels {
namespace {

// Rounded to nearest, ties to even; exact for weights that come from bfloat16. NaN stays NaN.
std::uint16_t to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

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
    lay_out(static_cast<std::uint16_t*>(panels) + first, to_bfloat16);
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

}  // namespace routeopd::kernels
