// The exact coupling and the union KLs of the learner against the reference's double sums and softmaxes, and
// the reference's gradients against finite differences.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "routeopd/routing/reference.h"
#include "routeopd/routing/reference_divergences.h"
#include "routeopd/routing/reference_sampling.h"
#include "routeopd/routing/token_losses.h"
#include "routing/random_states.h"

namespace routeopd::routing {
namespace {

using reference::LossAndGradient;
using reference::Transport;
using testing::FullState;
using testing::Values;

std::vector<float> narrowed(const Values& values) {
  return {values.begin(), values.end()};
}

// The student after some steps, exact in float.
Values moved(const Values& student, std::mt19937& random, double scale) {
  std::normal_distribution<double> normal;
  Values current;
  for (const double z : student)
    current.push_back(static_cast<double>(static_cast<float>(z + scale * normal(random))));
  return current;
}

TEST(ExactCoupling, EqualsTheDoubleSum) {
  std::mt19937 random(1);
  int outside = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const FullState full = testing::random_state(random, 3 + static_cast<int>(random() % 60));
    ObjectiveOptions options{.k = 16};
    options.kappa = trial % 3 == 0 ? 0.05 : trial % 3 == 1 ? 0.4 : 1.0;
    const Values current = moved(full.student, random, trial % 2 ? 0.02 : 1.5);
    const Transport state = testing::transport_of(full, options);
    if (!state.routed) continue;
    const LossAndGradient expected = reference::exact_loss(state, full.student, current, options);

    const auto old = narrowed(state.student_logits), p_student = narrowed(state.p_student);
    const auto p_teacher = narrowed(state.p_teacher), bounded = narrowed(state.bounded);
    const auto logits = narrowed(testing::at_ids(state.ids, current));
    std::vector<float> grad(logits.size(), 7);
    CouplingScratch scratch;
    const double loss = exact_coupling_loss({old, p_student, p_teacher, bounded, state.mass, options.kappa},
                                            logits, grad, scratch);
    // p in float is good to 2^-24 each, and e = p_S - p_T to 2^-23 of a q: the rest is double arithmetic.
    const double tolerance = 1e-6 * (1 + options.kappa) / std::sqrt(state.mass);
    EXPECT_NEAR(loss, expected.loss, tolerance * (1 + std::abs(expected.loss)));
    for (std::size_t i = 0; i < grad.size(); ++i) {
      EXPECT_NEAR(grad[i], expected.gradient[static_cast<std::size_t>(state.ids[i])], tolerance);
    }
    outside += options.kappa < 1 && trial % 2 == 0 ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(outside, 300) << "the sorted path was hardly taken";
}

TEST(ExactCoupling, ResidualsOnTheKneeAndTiesBelongToEitherBranch) {
  // u is constant on each side: all residuals are equal, exactly kappa, on both paths.
  const std::vector<float> old{0, 0, 0, 0}, p_student{0.5, 0.3, 0.1, 0.1}, p_teacher{0.2, 0.2, 0.3, 0.3};
  const std::vector<float> bounded{0, 0, 0, 0}, current{0, 0, 0.5, 0.5};
  std::vector<float> grad(4);
  CouplingScratch scratch;
  const double at_knee =
      exact_coupling_loss({old, p_student, p_teacher, bounded, 0.4, 0.5}, current, grad, scratch);
  EXPECT_NEAR(at_knee, 0.4 * 0.125, 1e-15);
  const double past =
      exact_coupling_loss({old, p_student, p_teacher, bounded, 0.4, 0.25}, current, grad, scratch);
  EXPECT_NEAR(past, 0.4 * huber(0.5, 0.25), 1e-15);
  EXPECT_NEAR(grad[2], 0.4 * 0.5 * 0.25, 1e-7);
  EXPECT_NEAR(grad[0], -0.4 * 0.75 * 0.25, 1e-7);
}

TEST(UnionKl, EqualsTheReference) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 1000; ++trial) {
    FullState full = testing::random_state(random, 2 + static_cast<int>(random() % 60), 3, 2);
    if (trial % 3 == 0) full.teacher[0] = -testing::kInfinity;
    const ObjectiveOptions options;
    const Values current = moved(full.student, random, 0.5);
    const Values teacher_p = reference::softmax(full.teacher);
    std::vector<float> log_p;
    for (const double p : teacher_p) log_p.push_back(static_cast<float>(std::log(p)));
    const auto p = narrowed(teacher_p);
    const auto logits = narrowed(current);
    std::vector<float> grad(logits.size());

    const LossAndGradient reverse = reference::reverse_kl(full.teacher, current, options);
    const double scale = 0.25;
    double loss = union_reverse_kl(log_p, logits, static_cast<float>(std::log(options.delta_p)), scale, grad);
    EXPECT_NEAR(loss, scale * reverse.loss, 1e-5);
    for (std::size_t v = 0; v < grad.size(); ++v) EXPECT_NEAR(grad[v], scale * reverse.gradient[v], 2e-6);

    const LossAndGradient forward = reference::forward_kl(full.teacher, current);
    loss = union_forward_kl(log_p, p, logits, scale, grad);
    EXPECT_NEAR(loss, scale * forward.loss, 1e-5);
    for (std::size_t v = 0; v < grad.size(); ++v) EXPECT_NEAR(grad[v], scale * forward.gradient[v], 1e-6);
    if (HasFailure()) return;
  }
}

TEST(Reference, GradientsEqualFiniteDifferences) {
  std::mt19937 random(3);
  const double step = 1e-5;
  for (int trial = 0; trial < 60; ++trial) {
    const FullState full = testing::random_state(random, 12);
    const Values current = moved(full.student, random, 0.3);
    ObjectiveOptions options{.k = 5, .m = 3};
    options.kappa = 0.37;
    options.side = static_cast<Side>(trial % 3);
    const Transport state = testing::transport_of(full, options);
    if (!state.routed) continue;
    const auto pairs =
        reference::sample_pairs(state, {}, options, 3, {.position = static_cast<std::uint32_t>(trial)});
    Values deltas;
    reference::pair_loss(state, pairs, full.student, current, options, &deltas);
    bool near_knee = false;  // a kink has no derivative
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      near_knee |= std::abs(std::abs(deltas[i] - pairs[i].target) - options.kappa) < 1e-3;
    }
    const auto action = static_cast<std::int32_t>(random() % 12);
    const std::function<LossAndGradient(const Values&)> losses[] = {
        [&](const Values& z) { return reference::pair_loss(state, pairs, full.student, z, options); },
        [&](const Values& z) { return reference::exact_loss(state, full.student, z, options); },
        [&](const Values& z) {
          return reference::sampled_rkl(full.student, full.teacher, z, action, options);
        },
        [&](const Values& z) { return reference::reverse_kl(full.teacher, z, options); },
        [&](const Values& z) { return reference::forward_kl(full.teacher, z); }};
    for (std::size_t which = near_knee ? 2 : 0; which < std::size(losses); ++which) {
      const LossAndGradient at = losses[which](current);
      for (std::size_t v = 0; v < current.size(); ++v) {
        Values up = current, down = current;
        up[v] += step;
        down[v] -= step;
        const double slope = (losses[which](up).loss - losses[which](down).loss) / (2 * step);
        // The exact coupling may cross a knee of a few of its pairs within the step: kappa q q of them.
        EXPECT_NEAR(at.gradient[v], slope, which == 1 ? 2e-5 : 1e-8) << "loss " << which << " id " << v;
      }
    }
  }
}

TEST(Diagnostics, FidelityAndLeakageOfTheIdealStep) {
  const FullState full{{2, 1, 0, -1}, {0, 1, 2, -1}};
  const Transport state = testing::transport_of(full, {});
  Values after = full.student;
  after[0] -= 0.1;
  after[2] += 0.1;
  const auto fidelity = reference::fidelity(state, full.student, after);
  ASSERT_TRUE(fidelity);
  EXPECT_GT(*fidelity, 0);
  EXPECT_LE(*fidelity, 1);
  const double leak = reference::leakage(full.teacher, full.student, after, 1e-12);
  EXPECT_GE(leak, 0);
  EXPECT_LT(leak, 1);
  EXPECT_FALSE(reference::fidelity(state, full.student, full.student));
  EXPECT_EQ(reference::leakage(full.teacher, full.student, full.student, 1e-12), 0);
}

}  // namespace
}  // namespace routeopd::routing
