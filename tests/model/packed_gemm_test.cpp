// The packed product against plain loops: equal to the last bit, for any rows beside, any panels, and every
// processor with fused multiply-add.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/kernels/packed_gemm.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstring>
#include <numbers>
#include <random>
#include <vector>

#include "model/head_testing.h"
#include "routeopd/model/inference/packed_matrix.h"

namespace routeopd::model {
namespace {

at::Tensor random_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn({rows, columns}, generator, at::TensorOptions(at::kFloat));
}

std::vector<PanelSource> plain_source(const at::Tensor& weight, const at::Tensor& bias,
                                      kernels::Epilogue epilogue) {
  std::vector<PanelSource> sources(1);
  sources[0].add_rows(weight, bias);
  sources[0].fill_panel();
  sources[0].epilogue = epilogue;
  return sources;
}

// Fused multiply-add is what makes the order of a sum its value: processors without it round twice.
std::vector<std::int64_t> targets_with_fma() {
  std::vector<std::int64_t> targets;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets())
    if (target <= HWY_AVX2) targets.push_back(target);
  return targets;
}

class Targets : public ::testing::Test {
 protected:
  ~Targets() override { hwy::SetSupportedTargetsForTest(0); }
};
using PackedGemm = Targets;

TEST_F(PackedGemm, EqualsPlainLoopsToTheLastBit) {
  const std::vector<std::int64_t> targets = targets_with_fma();
  if (targets.empty()) GTEST_SKIP() << "this processor has no fused multiply-add";
  for (const std::int64_t inputs : {1, 17, 256, 257, 600}) {
    for (const std::int64_t outputs : {1, 16, 40, 213}) {
      const at::Tensor weight = random_matrix(outputs, inputs, 1), bias = random_matrix(1, outputs, 2)[0];
      for (const kernels::Epilogue epilogue : {kernels::Epilogue::kStore, kernels::Epilogue::kAdd}) {
        for (const WeightStorage storage : {WeightStorage::kFloat32, WeightStorage::kBFloat16}) {
          const PackedMatrices packed(
              plain_source(weight, epilogue == kernels::Epilogue::kAdd ? bias : at::Tensor(), epilogue),
              storage);
          for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 11, 97}) {
            const at::Tensor x = random_matrix(rows, inputs, 3), before = random_matrix(rows, outputs, 4);
            at::Tensor expected = before.clone();
            kernels::reference_multiply(packed[0], x.const_data_ptr<float>(), rows, inputs,
                                        expected.data_ptr<float>(), outputs);
            for (const std::int64_t target : targets) {
              hwy::SetSupportedTargetsForTest(target);
              at::Tensor got = before.clone();
              kernels::multiply_panels(packed[0], x.const_data_ptr<float>(), rows, inputs, 0,
                                       packed[0].weight.panel_count, got.data_ptr<float>(), outputs);
              ASSERT_TRUE(at::equal(got, expected)) << inputs << " inputs, " << outputs << " outputs, "
                                                    << rows << " rows, " << hwy::TargetName(target);
            }
          }
        }
      }
    }
  }
}

TEST_F(PackedGemm, GatedSiluEqualsTwoProducts) {
  constexpr std::int64_t kInputs = 300, kOutputs = 53, kRows = 9;
  const at::Tensor gate = random_matrix(kOutputs, kInputs, 1), up = random_matrix(kOutputs, kInputs, 2);
  const at::Tensor gate_bias = random_matrix(1, kOutputs, 3)[0], x = random_matrix(kRows, kInputs, 4);
  const PackedMatrices packed({PanelSource::gated(gate, gate_bias, up, {})}, WeightStorage::kFloat32);
  at::Tensor got = at::zeros({kRows, kOutputs}, at::kFloat), expected = got.clone();
  kernels::multiply_panels(packed[0], x.const_data_ptr<float>(), kRows, kInputs, 0,
                           packed[0].weight.panel_count, got.data_ptr<float>(), kOutputs);
  const at::Tensor exact =
      at::silu(at::linear(x.to(at::kDouble), gate.to(at::kDouble), gate_bias.to(at::kDouble))) *
      at::linear(x.to(at::kDouble), up.to(at::kDouble));
  EXPECT_LT((got - exact).abs().max().item<double>() / exact.abs().max().item<double>(), 1e-6);
  kernels::reference_multiply(packed[0], x.const_data_ptr<float>(), kRows, kInputs,
                              expected.data_ptr<float>(), kOutputs);
  EXPECT_LT((got - expected).abs().max().item<double>() / exact.abs().max().item<double>(), 3e-7);
}

// Gates of any size: silu(x) is x or 0 there, never what an exponential past its range makes of it.
TEST_F(PackedGemm, GatedSiluKnowsLargeGates) {
  const at::Tensor x =
      at::tensor({-1e9F, -300.0F, -178.0F, -100.0F, -1.0F, 0.0F, 1.0F, 100.0F, 178.0F, 1e9F}).view({10, 1});
  const at::Tensor one = at::ones({1, 1});
  const PackedMatrices packed({PanelSource::gated(one, {}, one, {})}, WeightStorage::kFloat32);
  at::Tensor got = at::zeros({10, 1}, at::kFloat);
  kernels::multiply_panels(packed[0], x.const_data_ptr<float>(), 10, 1, 0, 2, got.data_ptr<float>(), 1);
  const at::Tensor wide = x.to(at::kDouble), expected = wide * wide / (1 + (-wide).exp());
  for (std::int64_t i = 0; i < 10; ++i) {
    const double exact = expected[i][0].item<double>();
    EXPECT_NEAR(got[i][0].item<double>(), exact, 1e-6 * std::abs(exact) + 1e-20) << x[i][0].item<float>();
  }
}

// gelu in its tanh form, by plain double precision: no exponential, so no rewriting of the formula that the
// kernel shares.
at::Tensor exact_gelu(const at::Tensor& x) {
  return x / 2 * (1 + at::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x.pow(3))));
}

TEST_F(PackedGemm, GatedGeluEqualsTwoProducts) {
  constexpr std::int64_t kInputs = 300, kOutputs = 53, kRows = 9;
  // Gates of deviation 2, where neither tail nor line is all there is.
  const at::Tensor gate = random_matrix(kOutputs, kInputs, 1) * 0.12,
                   up = random_matrix(kOutputs, kInputs, 2);
  const at::Tensor gate_bias = random_matrix(1, kOutputs, 3)[0], x = random_matrix(kRows, kInputs, 4);
  const PackedMatrices packed(
      {PanelSource::gated(gate, gate_bias, up, {}, kernels::Epilogue::kGatedGeluTanh)},
      WeightStorage::kFloat32);
  at::Tensor got = at::zeros({kRows, kOutputs}, at::kFloat), expected = got.clone();
  kernels::multiply_panels(packed[0], x.const_data_ptr<float>(), kRows, kInputs, 0,
                           packed[0].weight.panel_count, got.data_ptr<float>(), kOutputs);
  const at::Tensor exact =
      exact_gelu(at::linear(x.to(at::kDouble), gate.to(at::kDouble), gate_bias.to(at::kDouble))) *
      at::linear(x.to(at::kDouble), up.to(at::kDouble));
  EXPECT_LT((got - exact).abs().max().item<double>() / exact.abs().max().item<double>(), 1e-6);
  kernels::reference_multiply(packed[0], x.const_data_ptr<float>(), kRows, kInputs,
                              expected.data_ptr<float>(), kOutputs);
  EXPECT_LT((got - expected).abs().max().item<double>() / exact.abs().max().item<double>(), 3e-7);
}

TEST_F(PackedGemm, GatedGeluKnowsLargeGates) {
  const at::Tensor x =
      at::tensor({-1e9F, -300.0F, -100.0F, -10.0F, -1.0F, 0.0F, 1.0F, 10.0F, 100.0F, 1e18F}).view({10, 1});
  const at::Tensor one = at::ones({1, 1});
  const PackedMatrices packed({PanelSource::gated(one, {}, one, {}, kernels::Epilogue::kGatedGeluTanh)},
                              WeightStorage::kFloat32);
  at::Tensor got = at::zeros({10, 1}, at::kFloat);
  kernels::multiply_panels(packed[0], x.const_data_ptr<float>(), 10, 1, 0, 2, got.data_ptr<float>(), 1);
  const at::Tensor wide = x.to(at::kDouble), expected = wide * exact_gelu(wide);
  for (std::int64_t i = 0; i < 10; ++i) {
    const double exact = expected[i][0].item<double>();
    EXPECT_NEAR(got[i][0].item<double>(), exact,
                1e-6 * std::abs(exact) + 1e-2 * (x[i][0].item<float>() < -1e8F))
        << x[i][0].item<float>();
  }
}

TEST_F(PackedGemm, PanelsMayBeComputedApart) {
  constexpr std::int64_t kInputs = 70, kOutputs = 90, kRows = 5;
  const at::Tensor weight = random_matrix(kOutputs, kInputs, 1), x = random_matrix(kRows, kInputs, 2);
  const PackedMatrices packed(plain_source(weight, {}, kernels::Epilogue::kStore), WeightStorage::kFloat32);
  at::Tensor whole = at::zeros({kRows, kOutputs}, at::kFloat), parts = whole.clone();
  kernels::multiply_panels(packed[0], x.const_data_ptr<float>(), kRows, kInputs, 0, 6,
                           whole.data_ptr<float>(), kOutputs);
  kernels::multiply_panels(packed[0], x.const_data_ptr<float>(), kRows, kInputs, 4, 6,
                           parts.data_ptr<float>(), kOutputs);
  EXPECT_EQ(parts.slice(1, 0, 64).abs().max().item<float>(), 0) << "columns of other panels were written";
  kernels::multiply_panels(packed[0], x.const_data_ptr<float>(), kRows, kInputs, 0, 4,
                           parts.data_ptr<float>(), kOutputs);
  EXPECT_TRUE(at::equal(whole, parts));
  const kernels::Product last = kernels::panels_of(packed[0], 5, 4);
  EXPECT_EQ(last.weight.panel_count, 1);
  EXPECT_EQ(last.outputs, 10);
  at::Tensor tail = at::zeros({kRows, 10}, at::kFloat);
  kernels::multiply_panels(last, x.const_data_ptr<float>(), kRows, kInputs, 0, 1, tail.data_ptr<float>(), 10);
  EXPECT_TRUE(at::equal(tail, whole.slice(1, 80)));
}

TEST(PackedMatrices, ExactStorageIsBFloat16WhereNothingIsLost) {
  at::Tensor weight = random_matrix(20, 30, 1).to(at::kBFloat16).to(at::kFloat);
  const auto bytes = [&](WeightStorage storage) {
    return PackedMatrices(plain_source(weight, {}, kernels::Epilogue::kStore), storage).bytes();
  };
  EXPECT_EQ(bytes(WeightStorage::kExact), 32 * 30 * 2);
  EXPECT_EQ(bytes(WeightStorage::kFloat32), 32 * 30 * 4);
  weight[19][29] += 1e-5;
  EXPECT_EQ(bytes(WeightStorage::kExact), 32 * 30 * 4) << "a weight that bfloat16 has not was rounded";
}

// New values, also such that no longer fit the type of the old ones.
TEST(PackedMatrices, UpdatedIsAsMadeAnew) {
  const at::Tensor x = random_matrix(3, 30, 4);
  at::Tensor weight = random_matrix(20, 30, 1).to(at::kBFloat16).to(at::kFloat);
  const at::Tensor bias = random_matrix(1, 20, 2)[0];
  PackedMatrices packed(plain_source(weight, bias, kernels::Epilogue::kStore), WeightStorage::kExact);
  for (const at::Tensor& next : {weight * 2, weight + 1e-5, weight}) {
    const at::Tensor other_bias = bias + next[0][0];
    packed.update(plain_source(next, other_bias, kernels::Epilogue::kStore));
    at::Tensor got = at::empty({3, 20}, at::kFloat);
    kernels::multiply_panels(packed[0], x.const_data_ptr<float>(), 3, 30, 0, 2, got.data_ptr<float>(), 20);
    EXPECT_LT((got - at::linear(x, next, other_bias)).abs().max().item<double>(), 2e-5);
  }
}

}  // namespace
}  // namespace routeopd::model
