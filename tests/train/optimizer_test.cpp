// AdamW over several updates against its formula in double precision: after one update the decay rates of the
// moments cancel, so one is not enough.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace routeopd::train {
namespace {

const std::vector<std::vector<double>> kGradients = {{0.3, -2.0}, {-0.1, 0.5}, {4.0, 3.0}, {0.02, -0.6}};
const std::vector<double> kRates = {1e-2, 3e-2, 2e-2, 1e-3};

TEST(AdamW, FollowsItsFormulaOverSeveralUpdates) {
  OptimizerSection options;
  options.beta1 = 0.8;
  options.beta2 = 0.95;
  options.eps = 1e-3;
  options.weight_decay = 0.1;
  options.clip = 1.5;  // binds in some updates
  at::Tensor weight = at::tensor({0.7F, -1.2F});
  AdamW optimizer({{"w", weight}}, options);
  std::vector<double> expected = {0.7, -1.2}, first = {0, 0}, second = {0, 0};
  for (std::size_t t = 0; t < kGradients.size(); ++t) {
    std::vector<at::Tensor> gradients = {
        at::tensor({static_cast<float>(kGradients[t][0]), static_cast<float>(kGradients[t][1])})};
    const double norm = std::hypot(kGradients[t][0], kGradients[t][1]);
    EXPECT_NEAR(optimizer.step(gradients, kRates[t]), norm, 1e-6 * norm) << "the norm before the clip";
    const double scale = norm > options.clip ? options.clip / (norm + 1e-6) : 1;
    const auto n = static_cast<double>(t + 1);
    for (std::size_t i = 0; i < 2; ++i) {
      const double g = kGradients[t][i] * scale;
      first[i] = options.beta1 * first[i] + (1 - options.beta1) * g;
      second[i] = options.beta2 * second[i] + (1 - options.beta2) * g * g;
      const double mean = first[i] / (1 - std::pow(options.beta1, n));
      const double deviation = std::sqrt(second[i] / (1 - std::pow(options.beta2, n)));
      expected[i] -= kRates[t] * (options.weight_decay * expected[i] + mean / (deviation + options.eps));
      EXPECT_NEAR(weight[static_cast<std::int64_t>(i)].item<double>(), expected[i], 2e-7) << "update " << t;
    }
  }
  EXPECT_EQ(optimizer.updates(), 4);
}

TEST(AdamW, LeavesEverythingWhereTheGradientIsNotFinite) {
  at::Tensor weight = at::tensor({0.7F, -1.2F});
  const at::Tensor before = weight.clone();
  AdamW optimizer({{"w", weight}}, {});
  std::vector<at::Tensor> gradients = {at::tensor({1.0F, std::numeric_limits<float>::quiet_NaN()})};
  EXPECT_FALSE(std::isfinite(optimizer.step(gradients, 0.1)));
  EXPECT_TRUE(at::equal(weight, before));
  EXPECT_EQ(optimizer.updates(), 0);
  for (const model::Parameter& moment : optimizer.state())
    EXPECT_EQ(moment.tensor.abs().max().item<float>(), 0);
}

// The interface that checkpoints use: state read into a new optimizer, and the count of updates, are all it
// needs.
TEST(Optimizer, ResumesToTheSameBits) {
  const auto gradient = [](int t) {
    return std::vector<at::Tensor>{at::full({2}, 0.3F / static_cast<float>(t + 1))};
  };
  const at::Tensor whole_weight = at::tensor({0.7F, -1.2F}), weight = whole_weight.clone();
  const auto whole = make_optimizer({{"w", whole_weight}}, {});
  const auto first = make_optimizer({{"w", weight}}, {});
  for (int t = 0; t < 2; ++t) {
    std::vector<at::Tensor> a = gradient(t), b = gradient(t);
    whole->step(a, 1e-2);
    first->step(b, 1e-2);
  }
  const auto second = make_optimizer({{"w", weight}}, {});
  const std::vector<model::Parameter> from = first->state(), to = second->state();
  ASSERT_EQ(from.size(), 2U);
  EXPECT_EQ(from[0].name, "exp_avg.w");
  EXPECT_EQ(from[1].name, "exp_avg_sq.w");
  for (std::size_t i = 0; i < from.size(); ++i) to[i].tensor.copy_(from[i].tensor);
  second->resume(first->updates());
  std::vector<at::Tensor> a = gradient(2), b = gradient(2);
  whole->step(a, 1e-2);
  second->step(b, 1e-2);
  EXPECT_TRUE(at::equal(weight, whole_weight));
  EXPECT_EQ(second->updates(), 3);
}

TEST(Optimizer, KnowsItsBytesBeforeThereIsMemory) {
  const at::Tensor shape = at::empty({1000, 1000}, at::TensorOptions(at::kFloat).device(at::kMeta));
  EXPECT_EQ(make_optimizer({{"w", shape}}, {})->bytes(), 8'000'000);
}

}  // namespace
}  // namespace routeopd::train
