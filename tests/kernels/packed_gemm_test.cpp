// The packed product against plain loops: equal to the last bit, for any rows beside, any panels, and every
// processor with fused multiply-add.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/packed_gemm.h"

#include <cmath>
#include <numbers>

#include "kernels/kernel_testing.h"

namespace routeopd::kernels::testing {
namespace {

// Fused multiply-add is what makes the order of a sum its value: processors without it round twice.
std::vector<std::int64_t> targets_with_fma() {
  std::vector<std::int64_t> targets;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets())
    if (target <= HWY_AVX2) targets.push_back(target);
  return targets;
}

std::vector<float> multiply(const Product& product, const std::vector<float>& x, std::int64_t rows,
                            std::vector<float> y) {
  multiply_panels(product, x.data(), rows, product.weight.inputs, 0, product.weight.panel_count, y.data(),
                  product.outputs);
  return y;
}

class PackedGemm : public ::testing::Test {
 protected:
  ~PackedGemm() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_F(PackedGemm, EqualsPlainLoopsToTheLastBit) {
  const std::vector<std::int64_t> targets = targets_with_fma();
  if (targets.empty()) GTEST_SKIP() << "this processor has no fused multiply-add";
  for (const std::int64_t inputs : {1, 17, 256, 257, 600}) {
    for (const std::int64_t outputs : {1, 16, 40, 213}) {
      const std::vector<float> weight = random_floats(outputs * inputs, 1), bias = random_floats(outputs, 2);
      for (const Epilogue epilogue : {Epilogue::kStore, Epilogue::kAdd}) {
        for (const bool bfloat16 : {false, true}) {
          const PackedRows packed(row_pointers(weight, inputs), inputs, outputs, bfloat16,
                                  epilogue == Epilogue::kAdd ? bias : std::vector<float>(), epilogue);
          for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 11, 97}) {
            const std::vector<float> x = random_floats(rows * inputs, 3),
                                     before = random_floats(rows * outputs, 4);
            std::vector<float> expected = before;
            reference_multiply(packed.product, x.data(), rows, inputs, expected.data(), outputs);
            for (const std::int64_t target : targets) {
              hwy::SetSupportedTargetsForTest(target);
              ASSERT_EQ(multiply(packed.product, x, rows, before), expected)
                  << inputs << " inputs, " << outputs << " outputs, " << rows << " rows, "
                  << hwy::TargetName(target);
            }
          }
        }
      }
    }
  }
}

// The specification itself, against sums in double precision.
TEST_F(PackedGemm, PlainLoopsAreTheProduct) {
  constexpr std::int64_t kInputs = 300, kOutputs = 21, kRows = 4;
  const std::vector<float> weight = random_floats(kOutputs * kInputs, 1), bias = random_floats(kOutputs, 2),
                           x = random_floats(kRows * kInputs, 3);
  const PackedRows packed(row_pointers(weight, kInputs), kInputs, kOutputs, false, bias);
  std::vector<float> got(kRows * kOutputs);
  reference_multiply(packed.product, x.data(), kRows, kInputs, got.data(), kOutputs);
  std::vector<double> expected;
  for (std::size_t m = 0; m < kRows; ++m) {
    for (std::size_t n = 0; n < kOutputs; ++n) {
      double sum = static_cast<double>(bias[n]);
      for (std::size_t i = 0; i < kInputs; ++i)
        sum += static_cast<double>(x[m * kInputs + i]) * static_cast<double>(weight[n * kInputs + i]);
      expected.push_back(sum);
    }
  }
  EXPECT_LE(largest_difference(got, expected), 1e-4);  // sums of 300 terms of size one
}

// Gates of any size: silu(x) is x or 0 there, never what an exponential past its range makes of it.
TEST_F(PackedGemm, GatedSiluKnowsLargeGates) {
  const std::vector<float> x = {-1e9F, -300.0F, -178.0F, -100.0F, -1.0F, 0.0F, 1.0F, 100.0F, 178.0F, 1e9F};
  const float one = 1;
  std::vector<const float*> rows(2 * kPanelWidth, nullptr);  // a panel of the gate, one of up
  rows[0] = rows[kPanelWidth] = &one;
  const PackedRows packed(rows, 1, 1, false, {}, Epilogue::kGatedSilu);
  for_each_target([&] {
    const std::vector<float> got = multiply(packed.product, x, 10, std::vector<float>(10));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double wide = static_cast<double>(x[i]), exact = wide * wide / (1 + std::exp(-wide));
      EXPECT_NEAR(got[i], exact, 1e-6 * std::abs(exact) + 1e-20) << x[i];
    }
  });
}

TEST_F(PackedGemm, GatedGeluKnowsLargeGates) {
  const std::vector<float> x = {-1e9F, -300.0F, -100.0F, -10.0F, -1.0F, 0.0F, 1.0F, 10.0F, 100.0F, 1e18F};
  const float one = 1;
  std::vector<const float*> rows(2 * kPanelWidth, nullptr);  // a panel of the gate, one of up
  rows[0] = rows[kPanelWidth] = &one;
  const PackedRows packed(rows, 1, 1, false, {}, Epilogue::kGatedGeluTanh);
  for_each_target([&] {
    const std::vector<float> got = multiply(packed.product, x, 10, std::vector<float>(10));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double wide = static_cast<double>(x[i]);
      const double u = std::sqrt(2 / std::numbers::pi) * (wide + 0.044715 * wide * wide * wide);
      const double exact = wide * wide / 2 * (1 + std::tanh(u));
      EXPECT_NEAR(got[i], exact, 1e-6 * std::abs(exact) + 1e-20) << x[i];
    }
  });
}

TEST_F(PackedGemm, PanelsMayBeComputedApart) {
  constexpr std::int64_t kInputs = 70, kOutputs = 90, kRows = 5;
  const std::vector<float> weight = random_floats(kOutputs * kInputs, 1),
                           x = random_floats(kRows * kInputs, 2);
  const PackedRows packed(row_pointers(weight, kInputs), kInputs, kOutputs, false);
  const std::vector<float> whole = multiply(packed.product, x, kRows, std::vector<float>(kRows * kOutputs));
  std::vector<float> parts(kRows * kOutputs);
  multiply_panels(packed.product, x.data(), kRows, kInputs, 4, 6, parts.data(), kOutputs);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i % kOutputs < 64) {
      EXPECT_EQ(parts[i], 0) << "columns of other panels were written";
    }
  }
  multiply_panels(packed.product, x.data(), kRows, kInputs, 0, 4, parts.data(), kOutputs);
  EXPECT_EQ(parts, whole);
  const Product last = panels_of(packed.product, 5, 4);
  EXPECT_EQ(last.weight.panel_count, 1);
  EXPECT_EQ(last.outputs, 10);
  const std::vector<float> tail = multiply(last, x, kRows, std::vector<float>(kRows * 10));
  for (std::size_t i = 0; i < tail.size(); ++i) EXPECT_EQ(tail[i], whole[i / 10 * kOutputs + 80 + i % 10]);
}

TEST_F(PackedGemm, KnowsWhatBFloat16HoldsExactly) {
  std::vector<float> values = random_floats(100, 1);
  EXPECT_FALSE(is_exact_in_bfloat16(values.data(), 100));
  for (float& value : values) value = rounded_to_bfloat16(value);
  EXPECT_TRUE(is_exact_in_bfloat16(values.data(), 100));
  values.back() = std::nextafter(values.back(), 9.0F);
  EXPECT_FALSE(is_exact_in_bfloat16(values.data(), 100));
  EXPECT_TRUE(is_exact_in_bfloat16(values.data(), 99));
}

}  // namespace
}  // namespace routeopd::kernels::testing
