// The paper's four propositions, its counterexample and the limits that docs/method.md states, as properties
// of the reference on thousands of random states.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "routeopd/routing/reference.h"
#include "routeopd/routing/reference_divergences.h"
#include "routeopd/routing/reference_sampling.h"
#include "routeopd/routing/token_losses.h"
#include "routing/random_states.h"

namespace routeopd::routing {
namespace {

using reference::LossAndGradient;
using reference::Pair;
using reference::Transport;
using testing::FullState;
using testing::Values;

constexpr int kStates = 3000;

// Calls check(state, random) on states of many sizes and scales.
template <class Check>
void for_random_states(unsigned seed, const Check& check) {
  std::mt19937 random(seed);
  const double scales[] = {0.3, 1, 3, 8};
  for (int i = 0; i < kStates; ++i) {
    const int vocabulary = 2 + static_cast<int>(random() % 60);
    check(testing::random_state(random, vocabulary, scales[i % 4], scales[i / 4 % 4]), random);
    if (::testing::Test::HasFailure()) return;
  }
}

double sum(const Values& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(Propositions, SampledRklPushesEveryOtherTokenUp) {  // proposition 1
  int negative = 0;
  for_random_states(1, [&](const FullState& state, std::mt19937& random) {
    const auto action = static_cast<std::int32_t>(random() % state.student.size());
    const auto a = static_cast<std::size_t>(action);
    const Values pi = reference::softmax(state.student);
    const double advantage = std::log(reference::softmax(state.teacher)[a]) - std::log(pi[a]);
    const LossAndGradient loss =
        reference::sampled_rkl(state.student, state.teacher, state.student, action, {});
    EXPECT_NEAR(sum(loss.gradient), 0, 1e-12 * (1 + std::abs(advantage)));
    if (advantage >= 0) return;
    ++negative;
    for (std::size_t v = 0; v < pi.size(); ++v) {
      const double descent = -loss.gradient[v];
      EXPECT_NEAR(descent, -advantage * (pi[v] - (v == a ? 1.0 : 0.0)), 1e-11 * (1 - advantage));
      EXPECT_TRUE(v == a ? descent <= 0 : descent >= 0);
    }
  });
  EXPECT_GT(negative, kStates / 10);
}

TEST(Propositions, CouplingHasTheMarginalsAndTheMostEntropy) {  // proposition 2
  for_random_states(2, [&](const FullState& full, std::mt19937& random) {
    const Transport state = testing::transport_of(full, {.k = 8});
    double distance = 0;
    for (std::size_t i = 0; i < state.ids.size(); ++i)
      distance += std::abs(state.p_student[i] - state.p_teacher[i]) / 2;
    EXPECT_NEAR(state.mass, distance, 1e-14);
    EXPECT_NEAR(sum(state.excess), sum(state.deficit), 1e-14);
    if (!state.routed) return;
    EXPECT_NEAR(sum(state.q_minus), 1, 1e-14);
    EXPECT_NEAR(sum(state.q_plus), 1, 1e-14);

    const std::size_t n = state.ids.size();
    std::vector<Values> coupling(n, Values(n));
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) coupling[a][b] = state.q_minus[a] * state.q_plus[b];
      EXPECT_NEAR(state.mass * sum(coupling[a]), state.excess[a], 1e-14);
      EXPECT_TRUE(state.q_minus[a] == 0 || state.q_plus[a] == 0)
          << "a token is a source or a destination, not both";
    }
    const auto entropy = [&] {
      double total = 0;
      for (const Values& row : coupling) {
        for (const double p : row) total -= p > 0 ? p * std::log(p) : 0;
      }
      return total;
    };
    // Any move along a four-cycle keeps the marginals, and can only lose entropy.
    const double most = entropy();
    const std::size_t a1 = random() % n, a2 = random() % n, b1 = random() % n, b2 = random() % n;
    if (a1 == a2 || b1 == b2) return;
    const double step = std::min(coupling[a1][b1], coupling[a2][b2]) / 2;
    if (step <= 0) return;
    coupling[a1][b1] -= step;
    coupling[a2][b2] -= step;
    coupling[a1][b2] += step;
    coupling[a2][b1] += step;
    EXPECT_LT(entropy(), most + 1e-15);
  });
}

TEST(Propositions, SampledEstimatorConvergesToTheExactCoupling) {  // proposition 2, the estimator
  std::mt19937 random(3);
  for (int trial = 0; trial < 12; ++trial) {
    const FullState full = testing::random_state(random, 40, 2, 1.5);
    FullState moved = testing::random_state(random, 40, 0.4, 0);
    for (std::size_t v = 0; v < moved.student.size(); ++v) moved.student[v] += full.student[v];
    ObjectiveOptions options{.k = 12, .m = 4};
    options.kappa = trial % 2 ? 0.2 : 1.0;
    const Transport state = testing::transport_of(full, options);
    ASSERT_TRUE(state.routed);
    const LossAndGradient exact = reference::exact_loss(state, full.student, moved.student, options);

    constexpr std::uint32_t kDraws = 20000;
    double mean = 0;
    double squares = 0;
    Values gradient(full.student.size(), 0.0);
    for (std::uint32_t draw = 0; draw < kDraws; ++draw) {
      const auto pairs = reference::sample_pairs(state, {}, options, 11, {.position = draw});
      const LossAndGradient sampled =
          reference::pair_loss(state, pairs, full.student, moved.student, options);
      mean += sampled.loss / kDraws;
      squares += sampled.loss * sampled.loss / kDraws;
      for (std::size_t v = 0; v < gradient.size(); ++v) gradient[v] += sampled.gradient[v] / kDraws;
    }
    const double error = std::sqrt((squares - mean * mean) / kDraws);
    EXPECT_NEAR(mean, exact.loss, 4.5 * error);
    EXPECT_GT(error, 0);
    for (std::size_t v = 0; v < gradient.size();
         ++v) {  // |slope| <= kappa, so the standard error is at most this
      EXPECT_NEAR(gradient[v], exact.gradient[v],
                  4.5 * state.mass * options.kappa / std::sqrt(double{kDraws}));
    }
  }
}

TEST(Propositions, ARouteMovesTwoLogitsAndNoOther) {  // proposition 3
  for_random_states(4, [&](const FullState& full, std::mt19937&) {
    const ObjectiveOptions options{.k = 6, .m = 1};
    const Transport state = testing::transport_of(full, options);
    const auto pairs = reference::sample_pairs(state, {}, options, 5, {});
    if (pairs.empty()) return;
    const auto a = static_cast<std::size_t>(pairs[0].source);
    const auto b = static_cast<std::size_t>(pairs[0].destination);
    const LossAndGradient loss = reference::pair_loss(state, pairs, full.student, full.student, options);
    for (std::size_t v = 0; v < full.student.size(); ++v) {
      if (v != a && v != b) {
        EXPECT_EQ(loss.gradient[v], 0);
      }
    }
    // At the old student Delta = 0: the gradient is -M min(D, kappa) (e_b - e_a).
    EXPECT_NEAR(loss.gradient[b], -state.mass * std::min(pairs[0].target, options.kappa), 1e-15);
    EXPECT_EQ(loss.gradient[a], -loss.gradient[b]);

    // eq. unrelated-probability-change: a small step eta (e_b - e_a) moves pi(v) by -eta pi(v) (pi(b) -
    // pi(a)).
    const double eta = 1e-6;
    Values stepped = full.student;
    stepped[b] += eta;
    stepped[a] -= eta;
    const Values before = reference::softmax(full.student);
    const Values after = reference::softmax(stepped);
    for (std::size_t v = 0; v < before.size(); ++v) {
      if (v == a || v == b) continue;
      EXPECT_NEAR((after[v] - before[v]) / eta, -before[v] * (before[b] - before[a]),
                  1e-5 * before[v] + 1e-10);
    }
  });
}

TEST(Propositions, TargetsAreBoundedPositiveAndJointlyRealizable) {  // proposition 4
  for_random_states(5, [&](const FullState& full, std::mt19937&) {
    const ObjectiveOptions options{.k = 10};
    const Transport state = testing::transport_of(full, options);
    if (!state.routed) return;
    Values shifted = full.student;  // z + phi(g) on U realizes every pair target at once
    for (std::size_t i = 0; i < state.ids.size(); ++i)
      shifted[static_cast<std::size_t>(state.ids[i])] += state.bounded[i];
    for (std::size_t a = 0; a < state.ids.size(); ++a) {
      for (std::size_t b = 0; b < state.ids.size(); ++b) {
        if (state.q_minus[a] == 0 || state.q_plus[b] == 0) continue;
        const double target = reference::pair_target(state, state.ids[a], state.ids[b], options);
        EXPECT_GE(target, 0);
        EXPECT_LE(target, state.budget);
        const bool above_floor = state.p_student[a] > options.delta_p || state.p_teacher[b] > options.delta_p;
        if (above_floor) {
          EXPECT_GT(target, 0);
        }
        const Pair pair{state.ids[a], state.ids[b], target};
        Values delta;
        const LossAndGradient loss =
            reference::pair_loss(state, {&pair, 1}, full.student, shifted, options, &delta);
        EXPECT_NEAR(delta[0], target, 1e-13);
        EXPECT_NEAR(loss.loss, 0, 1e-26);
      }
    }
    EXPECT_NEAR(reference::exact_loss(state, full.student, shifted, options).loss, 0, 1e-26);
    EXPECT_GE(state.concentration, 0);
    EXPECT_LE(state.concentration, 1);
    EXPECT_GE(state.budget, options.b_min);
    EXPECT_LE(state.budget, options.b_max);
  });
}

TEST(Propositions, IndependentClippingBreaksTheFourCycle) {  // the worked counterexample of the appendix
  Transport state;
  const double budget = 0.3;
  state.ids = {0, 1, 2, 3};  // a1, a2, b1, b2
  state.potential = {-2 * budget, -0.4 * budget, 0.4 * budget, 2 * budget};
  state.budget = budget;
  for (const double g : state.potential) state.bounded.push_back(reference::bounded_potential(g, budget));
  const auto violation = [&](const ObjectiveOptions& options) {
    const auto target = [&](std::int32_t a, std::int32_t b) {
      return reference::pair_target(state, a, b, options);
    };
    return target(0, 2) + target(1, 3) - target(0, 3) - target(1, 2);
  };
  ObjectiveOptions independent;
  independent.target = Target::kIndependent;
  EXPECT_NEAR(reference::pair_target(state, 0, 2, independent), budget, 1e-15);
  EXPECT_NEAR(reference::pair_target(state, 1, 2, independent), 0.8 * budget, 1e-15);
  EXPECT_NEAR(violation(independent), 2 * budget - 1.8 * budget, 1e-15);
  EXPECT_NEAR(violation({}), 0, 1e-15);
}

TEST(Limits, FirstUpdateOfTheExactCoupling) {  // e(a) (mean+ phi - phi(a)) and -d(b) (phi(b) - mean- phi)
  for_random_states(6, [&](const FullState& full, std::mt19937&) {
    const ObjectiveOptions options{.k = 10};
    const Transport state = testing::transport_of(full, options);
    const LossAndGradient loss = reference::exact_loss(state, full.student, full.student, options);
    if (!state.routed) {
      EXPECT_EQ(loss.loss, 0);
      return;
    }
    double mean_plus = 0;
    double mean_minus = 0;
    for (std::size_t i = 0; i < state.ids.size(); ++i) {
      mean_plus += state.q_plus[i] * state.bounded[i];
      mean_minus += state.q_minus[i] * state.bounded[i];
    }
    for (std::size_t i = 0; i < state.ids.size(); ++i) {
      const double expected = state.excess[i] * (mean_plus - state.bounded[i]) -
                              state.deficit[i] * (state.bounded[i] - mean_minus);
      EXPECT_NEAR(loss.gradient[static_cast<std::size_t>(state.ids[i])], expected, 1e-14);
    }
  });
}

TEST(Limits, WhereEveryPotentialSaturatesTheGradientIsForwardKlTimesTheBudget) {
  // As |g| / B grows on every token, the gradient tends to B (p_S - p_T): the gap shrinks like 1 - tanh(2 |g|
  // / B).
  std::mt19937 random(7);
  for (int trial = 0; trial < 500; ++trial) {
    FullState full = testing::random_state(random, 4 + static_cast<int>(random() % 20), 0.2, 0);
    // The student spreads over the even ids, the teacher over the odd ones.
    for (std::size_t v = 0; v < full.student.size(); ++v) {
      (v % 2 ? full.teacher : full.student)[v] += 4;
    }
    ObjectiveOptions options{.k = kFullSupport};
    double last = std::numeric_limits<double>::infinity();
    for (const double budget : {4.0, 2.0, 1.0, 0.5}) {
      options.budget = {BudgetRule::kFixed, budget};
      options.kappa = 8;  // the quadratic regime
      const Transport state = testing::transport_of(full, options);
      double least = std::numeric_limits<double>::infinity();
      for (const double g : state.potential) least = std::min(least, std::abs(g));
      ASSERT_GT(least, 3);
      const LossAndGradient loss = reference::exact_loss(state, full.student, full.student, options);
      double gap = 0;
      for (std::size_t v = 0; v < full.student.size(); ++v) {
        const double limit = budget * (state.p_student[v] - state.p_teacher[v]);
        gap = std::max(gap, std::abs(loss.gradient[v] - limit) / budget);
      }
      EXPECT_LE(gap, 1 - std::tanh(2 * least / budget) + 1e-14);
      EXPECT_LE(gap, last);
      last = gap;
    }
  }
}

TEST(Limits, OneDeficitTokenConcentratesAllDemand) {
  const FullState full{{3, 1, 1, 1}, {0, 6, -2, -2}};
  const Transport state = testing::transport_of(full, {});
  EXPECT_EQ(state.n_deficit, 1);
  EXPECT_EQ(state.concentration, 1);
  EXPECT_EQ(state.budget, ObjectiveOptions{}.b_max);
  ObjectiveOptions reversed;
  reversed.budget.rule = BudgetRule::kReversed;
  EXPECT_NEAR(testing::transport_of(full, reversed).budget, reversed.b_min, 1e-15);
}

TEST(Limits, SupportPastTheVocabularyIsTheFullSupport) {
  std::mt19937 random(8);
  const FullState full = testing::random_state(random, 9);
  const Transport nine = testing::transport_of(full, {.k = 9});
  const Transport many = testing::transport_of(full, {.k = 500});
  const Transport all = testing::transport_of(full, {.k = kFullSupport});
  EXPECT_EQ(nine.ids, many.ids);
  EXPECT_EQ(many.ids, all.ids);
  EXPECT_EQ(many.p_teacher, all.p_teacher);
  EXPECT_EQ(reference::top_k(full.student, 500).size(), 9U);
}

TEST(Limits, ProbabilitiesUnderTheFloorCount) {
  // Both models are far under delta_p at id 1: its potential collapses to zero, though it is a deficit token.
  const FullState full{{0, -40, -1}, {-1, -35, 0}};
  const Transport state = testing::transport_of(full, {});
  EXPECT_GT(state.deficit[1], 0);
  EXPECT_EQ(state.potential[1], 0);
  // Only the teacher is under the floor at id 1: the potential is that of the floor.
  const FullState one{{0, 0, 0}, {0, -60, 0}};
  const Transport floored = testing::transport_of(one, {});
  EXPECT_NEAR(floored.potential[1], std::log(1e-8) - std::log(1.0 / 3), 1e-12);
}

TEST(Limits, EqualModelsHaveNothingToMove) {
  const FullState full{{1, 2, 3}, {1, 2, 3}};
  const Transport state = testing::transport_of(full, {});
  EXPECT_EQ(state.mass, 0);
  EXPECT_FALSE(state.routed);
  EXPECT_TRUE(reference::sample_pairs(state, {}, {}, 1, {}).empty());
  EXPECT_EQ(reference::exact_loss(state, full.student, {{5, 2, 3}}, {}).loss, 0);
}

TEST(Limits, TiesGoToTheLowerId) {
  const Values tied{1, 5, 5, 1, 5};
  EXPECT_EQ(reference::top_k(tied, 2), (reference::Ids{1, 2}));
  EXPECT_EQ(reference::top_k(tied, 4), (reference::Ids{1, 2, 4, 0}));
}

}  // namespace
}  // namespace routeopd::routing
