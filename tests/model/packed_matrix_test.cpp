// Weights laid out from tensors: gated pairs of matrices, the choice of the stored type, and new values in
// the same memory.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/inference/packed_matrix.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <vector>

#include "routeopd/kernels/packed_gemm.h"

namespace routeopd::model {
namespace {

at::Tensor random_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn({rows, columns}, generator, at::TensorOptions(at::kFloat));
}

// The plain loops fuse each product with its sum. Where the processor cannot, the kernels round twice, 300
// times a value; 4.0e-7 was seen there.
double beside_the_plain_loops() {
  const bool fused = (hwy::SupportedTargets() & (HWY_AVX2 | HWY_AVX3)) != 0;
  return fused ? 3e-7 : 6e-7;
}

std::vector<PanelSource> plain_source(const at::Tensor& weight, const at::Tensor& bias,
                                      kernels::Epilogue epilogue) {
  std::vector<PanelSource> sources(1);
  sources[0].add_rows(weight, bias);
  sources[0].fill_panel();
  sources[0].epilogue = epilogue;
  return sources;
}

TEST(PackedMatrices, GatedSiluEqualsTwoProducts) {
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
  EXPECT_LT((got - expected).abs().max().item<double>() / exact.abs().max().item<double>(),
            beside_the_plain_loops());
}

TEST(PackedMatrices, GatedGeluEqualsTwoProducts) {
  constexpr std::int64_t kInputs = 300, kOutputs = 53, kRows = 9;
  // Gates of deviation 2, where gelu is neither 0 nor its argument.
  const at::Tensor gate = random_matrix(kOutputs, kInputs, 1) * 0.12;
  const at::Tensor up = random_matrix(kOutputs, kInputs, 2);
  const at::Tensor gate_bias = random_matrix(1, kOutputs, 3)[0], x = random_matrix(kRows, kInputs, 4);
  const PackedMatrices packed(
      {PanelSource::gated(gate, gate_bias, up, {}, kernels::Epilogue::kGatedGeluTanh)},
      WeightStorage::kFloat32);
  at::Tensor got = at::zeros({kRows, kOutputs}, at::kFloat), expected = got.clone();
  kernels::multiply_panels(packed[0], x.const_data_ptr<float>(), kRows, kInputs, 0,
                           packed[0].weight.panel_count, got.data_ptr<float>(), kOutputs);
  const at::Tensor exact =
      at::gelu(at::linear(x.to(at::kDouble), gate.to(at::kDouble), gate_bias.to(at::kDouble)), "tanh") *
      at::linear(x.to(at::kDouble), up.to(at::kDouble));
  EXPECT_LT((got - exact).abs().max().item<double>() / exact.abs().max().item<double>(), 1e-6);
  kernels::reference_multiply(packed[0], x.const_data_ptr<float>(), kRows, kInputs,
                              expected.data_ptr<float>(), kOutputs);
  EXPECT_LT((got - expected).abs().max().item<double>() / exact.abs().max().item<double>(),
            beside_the_plain_loops());
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
