// Products x W^T with a weight that is laid out once for them, from one row of input to thousands. One row
// streams the weight at the speed of memory; many rows run near the processor's peak.
//
// Batch invariance: an output is the same bit for bit whatever other rows are computed beside it, in however
// many threads and whatever the vector width, since each is summed by the same chain: partial sums over
// kSumChunk inputs, in ascending order with fused multiply-adds, added up in ascending order.
//
// Layout: panel p holds outputs [16 p, 16 p + 16), input by input: panel[k * 16 + j] = W[16 p + j][k];
// outputs past the last one are zeros. Stored as float32, or as bfloat16 and widened in registers.
//
// Shapes: M rows of input, K inputs, N outputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace routeopd::kernels {

inline constexpr std::int64_t kPanelWidth = 16;
inline constexpr std::int64_t kSumChunk = 256;

struct PackedWeight {
  const void* panels = nullptr;  // [panel_count, K, 16], 64-byte aligned
  bool is_bfloat16 = false;
  std::int64_t panel_count = 0;
  std::int64_t inputs = 0;  // K

  std::int64_t bytes() const { return panel_count * kPanelWidth * inputs * (is_bfloat16 ? 2 : 4); }
};

// The 16 rows of K inputs that a panel is made of; null: zeros.
using PanelRows = std::array<const float*, kPanelWidth>;

// Lays out one panel; `panels` is the start of all of them. bfloat16 is rounded to nearest.
void pack_panel(const PanelRows& rows, const PackedWeight& shape, std::int64_t panel, void* panels);

// Whether bfloat16 holds these values without rounding.
bool is_exact_in_bfloat16(const float* values, std::int64_t count);

// What is done with a product.
enum class Epilogue {
  kStore,  // y = x W^T + bias
  kAdd,    // y += x W^T + bias
  // Panels 2q and 2q + 1 are gate and up.
  kGatedSilu,      // y[16 q + j] = silu(gate) * up
  kGatedGeluTanh,  // y[16 q + j] = gelu(gate) * up, in its tanh form
};

constexpr bool is_gated(Epilogue epilogue) {
  return epilogue == Epilogue::kGatedSilu || epilogue == Epilogue::kGatedGeluTanh;
}

// gelu in its tanh form, x / 2 * (1 + tanh(u)) with u = sqrt(2 / pi) * (x + 0.044715 x^3), is x / (1 + exp(-2
// u)) with 2 u = x * (kGelu1 + kGelu3 x^2).
inline constexpr float kGelu1 = 1.5957691216057308F;
inline constexpr float kGelu3 = 0.07135481627260025F;

struct Product {
  PackedWeight weight;
  std::int64_t outputs = 0;            // N columns of y
  const float* bias_panels = nullptr;  // [panel_count, 16]; null: none
  Epilogue epilogue = Epilogue::kStore;
};

// The product with panels [first, first + count) alone, fewer at the end.
Product panels_of(const Product& product, std::int64_t first, std::int64_t count);

// The outputs of panels [begin, end) (of a gated product an even number of them, from an even one) for M rows
// of x, rows x_stride and y_stride floats apart, on the caller's thread. y is the start of the whole output.
void multiply_panels(const Product& product, const float* x_MK, std::int64_t rows, std::int64_t x_stride,
                     std::int64_t begin, std::int64_t end, float* y_MN, std::int64_t y_stride);

// The same in plain loops, the specification of the above: equal bit for bit, but for the exponential of
// the gates.
void reference_multiply(const Product& product, const float* x_MK, std::int64_t rows, std::int64_t x_stride,
                        float* y_MN, std::int64_t y_stride);

}  // namespace routeopd::kernels
