// The fast kernel against the reference: every setting, every instruction set of this machine, any number of
// threads.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/route_states.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <string>

#include "routeopd/routing/reference_sampling.h"
#include "routing/random_states.h"

namespace routeopd::routing {
namespace {

using reference::Pair;
using reference::Transport;
using testing::FullState;
using testing::OwnedBatch;
using testing::Values;

constexpr std::uint64_t kSeed = 0x1234567890;

// Single precision: a probability is good to a few units of 2^-24; a potential is a difference of logits of
// size up to `largest`; the bounded potential has slope at most one.
double logit_tolerance(const FullState& state) {
  double largest = 1;
  for (const Values& logits : {state.student, state.teacher}) {
    for (const double z : logits) largest = std::isfinite(z) ? std::max(largest, std::abs(z)) : largest;
  }
  return 16 * 0x1p-24 * largest;
}
constexpr double kProbability = 4e-7;

// The reference's draw is ambiguous in single precision where its uniform lies this close to a step of the
// distribution function. Such draws are rare; more than a few of them would hide a mistake.
struct Tally {
  int pairs = 0;
  int ambiguous = 0;
};

void expect_same_state(const OwnedBatch& batch, const Routes& routes, const FullState& full, std::size_t n,
                       const ObjectiveOptions& options, Tally& tally) {
  const Transport state = testing::transport_of(full, options);
  ASSERT_EQ(routes.validity_N[n], Validity::kValid);
  EXPECT_NEAR(routes.mass_N[n], state.mass, kProbability);
  if (std::abs(state.mass - options.delta_m) < kProbability) return;  // either answer is right
  const auto pairs = reference::sample_pairs(state, batch.pools[n], options, kSeed, batch.address[n]);
  ASSERT_EQ(routes.routed_N[n] != 0, !pairs.empty());
  if (pairs.empty()) {
    EXPECT_EQ(routes.weight_N[n], 0);
    return;
  }
  EXPECT_NEAR(routes.weight_N[n], options.weight == Weight::kMass ? state.mass : 1, kProbability);
  const double concentration_tolerance = 2e-6 + 4 * kProbability / state.mass;
  EXPECT_NEAR(routes.concentration_N[n], state.concentration, concentration_tolerance);
  EXPECT_NEAR(routes.budget_N[n], state.budget, concentration_tolerance);
  const double logit = logit_tolerance(full) + concentration_tolerance;
  const double student_lse = reference::log_sum_exp(full.student);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const std::size_t at = n * pairs.size() + i;
    ++tally.pairs;
    if (routes.source_NM[at] != pairs[i].source || routes.destination_NM[at] != pairs[i].destination) {
      ++tally.ambiguous;
      continue;
    }
    EXPECT_NEAR(routes.target_NM[at], pairs[i].target, logit);
    const double a = full.student[static_cast<std::size_t>(pairs[i].source)];
    const double b = full.student[static_cast<std::size_t>(pairs[i].destination)];
    const double old =
        options.side == Side::kPair ? b - a : (options.side == Side::kSource ? a : b) - student_lse;
    EXPECT_NEAR(routes.old_NM[at], old, logit);
  }
}

// How many pairs were compared.
int compare(const ObjectiveOptions& options, int vocabulary, int states, double scale, double disturbance,
            unsigned seed) {
  std::mt19937 random(seed);
  std::vector<FullState> full;
  for (int n = 0; n < states; ++n)
    full.push_back(testing::random_state(random, vocabulary, scale, disturbance));
  const OwnedBatch batch(full, options, kSeed);
  const Routes routes = route_states(batch.view, options, kSeed, 1);
  Tally tally;
  for (std::size_t n = 0; n < full.size(); ++n) {
    expect_same_state(batch, routes, full[n], n, options, tally);
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_LE(tally.ambiguous, 1 + tally.pairs / 2000) << "of " << tally.pairs;
  return tally.pairs;
}

TEST(RouteStates, EqualsTheReferenceOverSupportsAndPairs) {
  for (const std::int32_t k : {1, 2, 7, 16, 31, 32, 33, 64, 100, 300, kFullSupport}) {
    for (const std::int32_t m : {1, 2, 8, 9, 40}) {
      SCOPED_TRACE(::testing::Message() << "k " << k << " m " << m);
      const int pairs =
          compare({.k = k, .m = m}, 400, 30, 2, 1, static_cast<unsigned>(k) + static_cast<unsigned>(m));
      // At k = 1 the models may agree on the one id, and nothing is routed.
      EXPECT_TRUE(k == 1 ? pairs >= m : pairs == 30 * m) << pairs << " pairs compared";
    }
  }
}

TEST(RouteStates, EqualsTheReferenceForEveryArm) {
  for (const std::string& arm : arm_names()) {
    const ObjectiveOptions options = objective_from({{"arm", arm}, {"k", 12}, {"m", 3}});
    if (options.loss != Loss::kRouted) continue;
    SCOPED_TRACE(arm);
    for (const double scale : {0.3, 2.0, 8.0})
      EXPECT_GT(compare(options, 300, 200, scale, scale / 2, 17), 3 * 150) << scale;
  }
}

TEST(RouteStates, EqualsTheReferenceOnEveryInstructionSet) {
  int targets = 0;
  for (std::int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) {
    const std::int64_t target = left & -left;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    EXPECT_EQ(compare({.k = 32, .m = 2}, 500, 100, 2, 1, 5), 100 * 2);
    EXPECT_EQ(compare({.k = kFullSupport, .m = 20}, 1500, 10, 2, 1, 6), 10 * 20);
    ++targets;
  }
  hwy::SetSupportedTargetsForTest(0);
  EXPECT_GE(targets, 1);
}

TEST(RouteStates, FewerIdsOutsideTheTopKThanControlsWouldLike) {
  for (const char* arm :
       {"rank_matched", "rank_matched_neutral", "random_background", "student_proportional"}) {
    SCOPED_TRACE(arm);
    EXPECT_GT(compare(objective_from({{"arm", arm}, {"k", 5}}), 7, 200, 2, 2, 3), 0);
    const int pairs = compare(objective_from({{"arm", arm}, {"k", "full"}}), 6, 100, 2, 2, 4);
    if (arm == std::string("random_background") || arm == std::string("rank_matched_neutral")) {
      EXPECT_EQ(pairs, 0) << "there is no background at all, and every id of U is in E or in D";
    } else {
      EXPECT_GT(pairs, 0);
    }
  }
}

TEST(RouteStates, ThreadsDoNotChangeABit) {
  std::mt19937 random(9);
  std::vector<FullState> full;
  for (int n = 0; n < 1500; ++n) full.push_back(testing::random_state(random, 80));
  const ObjectiveOptions options{.k = 10, .m = 3};
  const OwnedBatch batch(full, options, kSeed);
  const Routes one = route_states(batch.view, options, kSeed, 1, true);
  for (const int threads : {2, 3, 5}) {
    const Routes many = route_states(batch.view, options, kSeed, threads, true);
    EXPECT_EQ(one.source_NM, many.source_NM);
    EXPECT_EQ(one.destination_NM, many.destination_NM);
    EXPECT_EQ(one.target_NM, many.target_NM);
    EXPECT_EQ(one.old_NM, many.old_NM);
    EXPECT_EQ(one.weight_N, many.weight_N);
    EXPECT_EQ(one.coverage_N, many.coverage_N);
    EXPECT_EQ(one.support.offsets_N1, many.support.offsets_N1);
    EXPECT_EQ(one.support.ids_L, many.support.ids_L);
    EXPECT_EQ(one.support.bounded_L, many.support.bounded_L);
  }
}

TEST(RouteStates, BatchLayoutDoesNotChangeARoute) {
  std::mt19937 random(10);
  std::vector<FullState> full;
  for (int n = 0; n < 20; ++n) full.push_back(testing::random_state(random, 80));
  const ObjectiveOptions options{.k = 10, .m = 3};
  const OwnedBatch batch(full, options, kSeed);
  const Routes all = route_states(batch.view, options, kSeed, 1);
  OwnedBatch last({full.back()}, options, kSeed);
  last.address = {batch.address.back()};
  last.view.address_N = last.address.data();
  const Routes alone = route_states(last.view, options, kSeed, 1);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(alone.source_NM[i], all.source_NM[57 + i]);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(alone.target_NM[i], all.target_NM[57 + i]);
}

TEST(RouteStates, StatisticsEqualTheirDefinitions) {
  std::mt19937 random(11);
  std::vector<FullState> full;
  for (int n = 0; n < 100; ++n) full.push_back(testing::random_state(random, 120));
  const ObjectiveOptions options{.k = 9, .m = 6};
  const OwnedBatch batch(full, options, kSeed);
  const Routes routes = route_states(batch.view, options, kSeed, 1, true);
  for (std::size_t n = 0; n < full.size(); ++n) {
    const Transport state = testing::transport_of(full[n], options);
    ASSERT_TRUE(state.routed);
    EXPECT_EQ(routes.n_deficit_N[n], state.n_deficit);
    double covered = 0;
    int saturated = 0;
    for (std::size_t i = 0; i < state.ids.size(); ++i) {
      for (std::size_t pair = 0; pair < 6; ++pair) {
        if (routes.destination_NM[n * 6 + pair] != state.ids[i]) continue;
        covered += state.q_plus[i];
        break;
      }
      saturated += std::abs(state.potential[i]) >= state.budget ? 1 : 0;
    }
    EXPECT_NEAR(routes.coverage_N[n], covered, 1e-5);
    EXPECT_NEAR(routes.saturated_N[n], saturated / static_cast<double>(state.ids.size()), 1e-6);
    const auto mass = [&](const Values& logits) {
      return std::exp(reference::log_sum_exp(testing::at_ids(state.ids, logits)) -
                      reference::log_sum_exp(logits));
    };
    EXPECT_NEAR(routes.student_mass_N[n], mass(full[n].student), 2e-6);
    EXPECT_NEAR(routes.teacher_mass_N[n], mass(full[n].teacher), 2e-6);
    const auto begin = static_cast<std::size_t>(routes.support.offsets_N1[n]);
    ASSERT_EQ(static_cast<std::size_t>(routes.support.offsets_N1[n + 1]) - begin, state.ids.size());
    for (std::size_t i = 0; i < state.ids.size(); ++i) {
      EXPECT_EQ(routes.support.ids_L[begin + i], state.ids[i]);
      EXPECT_NEAR(routes.support.p_student_L[begin + i], state.p_student[i], kProbability);
      EXPECT_NEAR(routes.support.p_teacher_L[begin + i], state.p_teacher[i], kProbability);
      EXPECT_NEAR(routes.support.log_p_teacher_L[begin + i], std::log(state.p_teacher[i]), 1e-5);
      EXPECT_NEAR(routes.support.bounded_L[begin + i], state.bounded[i], 1e-5);
    }
  }
}

// Of the destinations that the pairs use: one outside D counts nothing, one that comes twice counts once.
TEST(RouteStates, CoverageIsOfTheDestinationsUsed) {
  std::mt19937 random(8);
  std::vector<FullState> full;
  for (int n = 0; n < 100; ++n) full.push_back(testing::random_state(random, 60));
  for (const char* arm : {"teacher_deficit", "uniform_deficit", "student_proportional", "random_background",
                          "rank_matched", "rank_matched_neutral"}) {
    const ObjectiveOptions options = objective_from({{"arm", arm}, {"k", 6}, {"m", 4}});
    const OwnedBatch batch(full, options, kSeed);
    const Routes routes = route_states(batch.view, options, kSeed, 1);
    int twice = 0, outside = 0, inside = 0;
    for (std::size_t n = 0; n < full.size(); ++n) {
      ASSERT_EQ(routes.routed_N[n], 1);
      const reference::Transport state = testing::transport_of(full[n], options);
      std::set<std::int32_t> seen;
      double covered = 0;
      for (std::size_t i = 4 * n; i < 4 * (n + 1); ++i) {
        const std::int32_t id = routes.destination_NM[i];
        const auto at = std::find(state.ids.begin(), state.ids.end(), id) - state.ids.begin();
        const bool in_d = at < std::ssize(state.ids) && state.deficit[static_cast<std::size_t>(at)] > 0;
        (in_d ? inside : outside) += 1;
        if (!seen.insert(id).second) {
          ++twice;
        } else if (in_d) {
          covered += state.q_plus[static_cast<std::size_t>(at)];
        }
      }
      EXPECT_NEAR(routes.coverage_N[n], covered, 1e-5) << arm;
    }
    EXPECT_GT(twice, 0) << arm;
    const std::string name = arm;
    EXPECT_EQ(inside > 0, name != "random_background" && !name.starts_with("rank_matched")) << arm;
    EXPECT_EQ(outside > 0, name != "teacher_deficit" && name != "uniform_deficit") << arm;
  }
}

// Both rank-matched controls rank U and the pool together; the neutral one may not raise what the teacher
// wants lowered, and ranks count those ids all the same.
TEST(RouteStates, RankMatchedDestinationsAreThoseNearestInRank) {
  // 0 and 1 are in excess, 2 in deficit. By the student's logit: 0, 4, 1, 2, 6, 5, 7. From b = 2 outwards,
  // the lower rank first: 1, 6 | 4, 5 | 0, 7; 0 is the source.
  const Values student = {std::log(0.45), std::log(0.35), std::log(0.2)};
  const Values teacher = {std::log(0.4), std::log(0.3), std::log(0.3)};
  const reference::Pool pool{{7, 4, 5, 6}, {-5, -1, -3, -2.1}};
  const auto reached = [&](const char* arm, std::int32_t window) {
    const ObjectiveOptions options = objective_from({{"arm", arm}, {"m", 200}, {"rank_window", window}});
    const Transport state = reference::transport({0, 1, 2}, student, teacher, options);
    std::set<std::int32_t> from_0;
    for (const reference::Pair& pair : reference::sample_pairs(state, pool, options, kSeed, {}))
      if (pair.source == 0) from_0.insert(pair.destination);
    return from_0;
  };
  using Set = std::set<std::int32_t>;
  EXPECT_EQ(reached("rank_matched", 1), (Set{1}));
  EXPECT_EQ(reached("rank_matched", 3), (Set{1, 6, 4}));
  EXPECT_EQ(reached("rank_matched", 8), (Set{1, 6, 4, 5, 7}));
  EXPECT_EQ(reached("rank_matched_neutral", 1), (Set{6}));
  EXPECT_EQ(reached("rank_matched_neutral", 3), (Set{6, 4, 5}));
  EXPECT_EQ(reached("rank_matched_neutral", 8), (Set{6, 4, 5, 7}));
}

// One valid state, to be damaged.
class Damaged : public ::testing::Test {
 protected:
  Damaged() : batch_({full()}, options_, kSeed) {}
  static FullState full() { return {{3, 2, 1, 0, -1, -2}, {0, 1, 2, 3, -1, -2}}; }
  Validity judged() { return route_states(batch_.view, options_, kSeed, 1).validity_N[0]; }

  ObjectiveOptions options_{.k = 3};
  OwnedBatch batch_;
  static constexpr float kInf = std::numeric_limits<float>::infinity();
};

TEST_F(Damaged, IsValidBefore) {
  EXPECT_EQ(judged(), Validity::kValid);
}

TEST_F(Damaged, NotANumberOrPlusInfinityAnywhereIsNonFinite) {
  for (auto* values : {&batch_.student_logits, &batch_.teacher_at_student, &batch_.teacher_logits}) {
    for (const float bad : {std::nanf(""), kInf}) {
      const float good = std::exchange((*values)[1], bad);
      EXPECT_EQ(judged(), Validity::kNonFinite);
      (*values)[1] = good;
    }
  }
  EXPECT_EQ(judged(), Validity::kValid);
}

TEST_F(Damaged, EveryIdAtMinusInfinityIsNonFinite) {
  for (auto* values : {&batch_.student_logits, &batch_.student_at_teacher})
    std::fill(values->begin(), values->end(), -kInf);
  EXPECT_EQ(judged(), Validity::kNonFinite);
}

TEST_F(Damaged, TeacherAtMinusInfinityWhereverTheStudentIsNot) {
  for (auto* values : {&batch_.teacher_logits, &batch_.teacher_at_student})
    std::fill(values->begin(), values->end(), -kInf);
  EXPECT_EQ(judged(), Validity::kNonFinite);
}

TEST_F(Damaged, IdsOutsideTheVocabularyOrTwiceInAListAreMisaligned) {
  for (const std::int32_t bad : {6, 1 << 30, -2, batch_.student_ids[0]}) {
    const std::int32_t good = std::exchange(batch_.student_ids[1], bad);
    EXPECT_EQ(judged(), Validity::kMisaligned) << bad;
    batch_.student_ids[1] = good;
  }
  batch_.teacher_ids[2] = batch_.teacher_ids[1];
  EXPECT_EQ(judged(), Validity::kMisaligned);
}

TEST_F(Damaged, NoIdsIsAnEmptySupport) {
  std::fill(batch_.student_ids.begin(), batch_.student_ids.end(), -1);
  std::fill(batch_.teacher_ids.begin(), batch_.teacher_ids.end(), -1);
  EXPECT_EQ(judged(), Validity::kEmptySupport);
}

TEST_F(Damaged, PadsAreNotIds) {
  batch_.student_ids[2] = -1;
  batch_.student_logits[2] = std::nanf("");  // what stands beside a pad does not matter
  EXPECT_EQ(judged(), Validity::kValid);
}

TEST_F(Damaged, AReasonFromUpstreamStays) {
  const Validity padding = Validity::kPadding;
  batch_.view.validity_N = &padding;
  const Routes routes = route_states(batch_.view, options_, kSeed, 1, true);
  EXPECT_EQ(routes.validity_N[0], Validity::kPadding);
  EXPECT_EQ(routes.weight_N[0], 0);
  EXPECT_EQ(routes.source_NM[0], -1);
  EXPECT_EQ(routes.support.offsets_N1, (std::vector<std::int64_t>{0, 0}));
}

TEST_F(Damaged, StudentAtMinusInfinityLeavesTheIdOut) {
  batch_.student_at_teacher[0] = -kInf;  // id 3, the teacher's favourite
  const Routes routes = route_states(batch_.view, options_, kSeed, 1, true);
  EXPECT_EQ(routes.validity_N[0], Validity::kValid);
  for (const std::int32_t id : routes.support.ids_L) EXPECT_NE(id, 3);
}

TEST_F(Damaged, WhatAnArmNeedsIsAskedFor) {
  batch_.view.student_lse_N = nullptr;
  EXPECT_THROW(route_states(batch_.view, objective_from({{"arm", "source_only"}}), kSeed, 1), UserError);
  EXPECT_NO_THROW(route_states(batch_.view, objective_from({{"arm", "fixed_mid"}}), kSeed, 1));
  batch_.view.pool_ids_NP = nullptr;
  EXPECT_THROW(route_states(batch_.view, objective_from({{"arm", "rank_matched"}}), kSeed, 1), UserError);
}

TEST(RouteStates, EqualModelsAreValidAndNotRouted) {
  const std::vector<FullState> full = {{{1, 2, 3, 4}, {1, 2, 3, 4}}};
  const OwnedBatch batch(full, {.k = 3}, kSeed);
  const Routes routes = route_states(batch.view, {.k = 3}, kSeed, 1);
  EXPECT_EQ(routes.validity_N[0], Validity::kValid);
  EXPECT_EQ(routes.mass_N[0], 0);
  EXPECT_EQ(routes.routed_N[0], 0);
}

}  // namespace
}  // namespace routeopd::routing
