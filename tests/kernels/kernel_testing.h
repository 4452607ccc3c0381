// What the tests of the kernels share: random matrices of each type, aligned memory, packed weights, and
// every Highway target of this machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "routeopd/base/parallel.h"
#include "routeopd/kernels/head_rows.h"
#include "routeopd/kernels/packed_gemm.h"
#include "routeopd/kernels/parallel_for.h"
#include "routeopd/kernels/row_convert.h"
#include "testing_targets.h"

namespace routeopd::kernels::testing {

inline std::vector<float> random_floats(std::int64_t count, unsigned seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

inline float rounded_to_bfloat16(float value) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffff0000U);
}

inline constexpr RowType kRowTypes[] = {RowType::kFloat32, RowType::kBFloat16, RowType::kFloat16};

// A random matrix as the kernels read it, with `gap` elements of NaN after each row but the last. The last
// row ends where the memory ends, so that an address sanitizer sees what is read past it.
struct TestMatrix {
  std::int64_t rows, width, stride;
  RowType type;
  std::vector<float> floats;
  std::vector<std::uint16_t> halves;

  TestMatrix(std::int64_t row_count, std::int64_t columns, RowType row_type, unsigned seed, float scale = 1,
             std::int64_t gap = 0)
      : rows(row_count), width(columns), stride(columns + gap), type(row_type) {
    const std::vector<float> values = random_floats(rows * width, seed, scale);
    // A mask in place of two branches: GCC 12 folds `b ? rounded_to_bfloat16(x) : x` into x.
    const std::uint32_t mask = type == RowType::kBFloat16 ? 0xffff0000U : 0xffffffffU;
    floats.assign(static_cast<std::size_t>(rows > 0 ? (rows - 1) * stride + width : 0), std::nanf(""));
    for (std::int64_t i = 0; i < rows * width; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(values[static_cast<std::size_t>(i)]);
      floats[static_cast<std::size_t>(i / width * stride + i % width)] = std::bit_cast<float>(bits & mask);
    }
    fill_halves();
  }

  // The elements of 16 bits, after a change of floats, too; what float16 does not hold is rounded in both.
  void fill_halves() {
    halves.clear();
    for (float& value : floats) {
      if (type == RowType::kFloat16) value = widen(to_float16(value));
      halves.push_back(type == RowType::kFloat16 ? to_float16(value).bits : to_bfloat16(value).bits);
    }
  }

  RowMatrix view() const {
    const void* data = floats.data();
    if (type != RowType::kFloat32) data = halves.data();
    return {.data = data, .width = width, .stride = stride, .type = type};
  }

  double at(std::int64_t row, std::int64_t column) const {
    return static_cast<double>(floats[static_cast<std::size_t>(row * stride + column)]);
  }
};

// Floats that begin at a cache line.
class AlignedFloats {
 public:
  explicit AlignedFloats(std::int64_t count)
      : memory_(static_cast<float*>(
            std::aligned_alloc(64, (static_cast<std::size_t>(count) * sizeof(float) + 64) / 64 * 64))) {}
  float* data() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  std::unique_ptr<float[], Free> memory_;
};

// Rows of a weight laid out in panels; null rows are zeros. The bias has one value per row, or none.
struct PackedRows {
  AlignedFloats panels;
  std::vector<float> bias;
  Product product;

  PackedRows(std::vector<const float*> rows, std::int64_t inputs, std::int64_t outputs, bool bfloat16,
             std::vector<float> row_bias = {}, Epilogue epilogue = Epilogue::kStore)
      : panels(static_cast<std::int64_t>(rows.size() + kPanelWidth) * inputs), bias(std::move(row_bias)) {
    while (rows.size() % kPanelWidth != 0) rows.push_back(nullptr);
    if (!bias.empty()) bias.resize(rows.size());
    product = {.weight = {.panels = panels.data(),
                          .is_bfloat16 = bfloat16,
                          .panel_count = std::ssize(rows) / kPanelWidth,
                          .inputs = inputs},
               .outputs = outputs,
               .bias_panels = bias.empty() ? nullptr : bias.data(),
               .epilogue = epilogue};
    for (std::int64_t p = 0; p < product.weight.panel_count; ++p) {
      PanelRows of_panel{};
      std::copy_n(rows.begin() + p * kPanelWidth, kPanelWidth, of_panel.begin());
      pack_panel(of_panel, product.weight, p, panels.data());
    }
  }
};

inline std::vector<const float*> row_pointers(std::span<const float> weight_NK, std::int64_t inputs) {
  std::vector<const float*> rows;
  for (std::size_t at = 0; at < weight_NK.size(); at += static_cast<std::size_t>(inputs))
    rows.push_back(weight_NK.data() + at);
  return rows;
}

// Threads started for each loop and joined at its end.
inline ParallelFor in_threads(int threads) {
  return {.threads = threads,
          .run = [threads](std::int64_t begin, std::int64_t end, std::int64_t grain,
                           const ParallelFor::Work& work) {
            parallel_ranges(end - begin, grain, threads, [&](std::int64_t first, std::int64_t last) {
              work(begin + first, begin + last);
            });
          }};
}

inline double largest_difference(std::span<const float> values, std::span<const double> expected) {
  if (values.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double difference = std::abs(static_cast<double>(values[i]) - expected[i]);
    if (!(difference <= largest)) largest = difference;  // NaN stays
  }
  return largest;
}

}  // namespace routeopd::kernels::testing
