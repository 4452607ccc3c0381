// The dense head over several chunks of tokens and, in bfloat16, several slices of the weight, against
// float64 autograd.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/heads/dense_head.h"

#include <gtest/gtest.h>

namespace routeopd::model {
namespace {

TEST(DenseHead, ChunksAndSlicesEqualAutograd) {
  at::manual_seed(3);
  constexpr std::int64_t kTokens = 13, kHidden = 6, kReal = 9000,
                         kRows = 9010;  // over one slice of 8,192 rows
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor hidden = at::randn({kTokens, kHidden}).to(dtype);
    const at::Tensor weight = at::randn({kRows, kHidden}).to(dtype);
    const at::Tensor pull = at::randn({kReal});  // loss = sum over v of pull_v z_v + z_v^2 / 2
    at::Tensor h = hidden.to(at::kDouble).requires_grad_(true),
               w = weight.to(at::kDouble).requires_grad_(true);
    const at::Tensor z = at::matmul(h, w.slice(0, 0, kReal).t());
    const at::Tensor expected = (z * pull.to(at::kDouble) + z * z / 2).sum();
    expected.backward();

    DenseLoss loss;
    loss.row = [&](std::int64_t, std::span<const float> logits, std::span<float> grad) {
      double total = 0;
      for (std::size_t v = 0; v < logits.size(); ++v) {
        const float z_v = logits[v], p = pull.const_data_ptr<float>()[v];
        total += static_cast<double>(z_v) * static_cast<double>(p + z_v / 2);
        grad[v] = p + z_v;
      }
      return total;
    };
    loss.chunk = [&](std::int64_t, std::int64_t, at::Tensor& logits_CR) {
      const double total = (logits_CR * (pull + logits_CR / 2)).sum().item<double>();
      logits_CR.add_(pull);
      return total;
    };
    for (const Backend backend : {Backend::kAuto, Backend::kAten}) {
      for (const std::int64_t chunk : {1, 5, 13, 256}) {
        HeadGradient gradient(at::zeros({kRows, kHidden}));
        at::Tensor grad_hidden = at::full({kTokens, kHidden}, 99.0, at::kFloat);
        const double value =
            dense_head_step(hidden, weight, kReal, loss, grad_hidden, gradient, backend, chunk);
        const auto relative = [](const at::Tensor& got, const at::Tensor& want) {
          return ((got.to(at::kDouble) - want).norm() / want.norm()).item<double>();
        };
        EXPECT_NEAR(value / expected.item<double>(), 1, 1e-5);
        EXPECT_LT(relative(grad_hidden, h.grad()), 1e-5);
        EXPECT_LT(relative(gradient.tensor(), w.grad()), 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace routeopd::model
