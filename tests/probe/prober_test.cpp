// The ladder of interventions against plain double-precision loops and the optimizer of training.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/prober.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "bank_testing.h"
#include "routeopd/base/files.h"
#include "routeopd/probe/step_size.h"
#include "routeopd/probe/summary.h"
#include "routeopd/probe/vocabulary_rows.h"
#include "routeopd/routing/reference_divergences.h"
#include "routeopd/routing/reference_sampling.h"
#include "routeopd/routing/token_losses.h"
#include "routeopd/train/optimizer.h"
#include "testing_errors.h"
#include "testing_files.h"

namespace routeopd::probe {
namespace {

namespace reference = routing::reference;

constexpr double kLr = 1e-3;

train::OptimizerSection settings() {
  train::OptimizerSection optimizer;
  optimizer.lr = kLr;
  return optimizer;
}

ProbeArm named(const std::string& arm, Json more = Json::object()) {
  more["arm"] = arm;
  if (!more.contains("k")) more["k"] = 6;
  if (!more.contains("m")) more["m"] = 3;
  return {.name = arm, .objective = routing::objective_from(more)};
}

struct Ladder : testing::Test {
  TinyPair pair;
  Bank bank = tiny_bank(pair);
  Prober prober{bank, pair.student, pair.teacher.head_VH, settings(), /*banks_own=*/true};
};

// Rows of logits after an intervention, by (state, pair).
struct Kept {
  std::map<std::pair<std::size_t, std::int32_t>, reference::Values> rows;
  std::mutex lock;
  AfterRow sink() {
    return [this](std::size_t state, std::int32_t of_pair, std::span<const double> logits) {
      const std::scoped_lock hold(lock);
      rows[{state, of_pair}].assign(logits.begin(), logits.end());
    };
  }
};

TEST_F(Ladder, ExactStepsRealiseEveryTarget) {
  for (const Intervention exact : {Intervention::kPairIsolated, Intervention::kPotentialWide}) {
    for (const Json& more :
         {Json::object(), Json{{"budget", "fixed_mid"}}, Json{{"k", 3}}, Json{{"k", "full"}}}) {
      const ProbeRow row = prober.run(named("routeopd", more), exact);
      const Realization realized = realization(row.changes, bank.objective.delta_target);
      EXPECT_GT(realized.pairs, 50);
      EXPECT_LT(realized.mae, 1e-6) << name_of(exact) << more;
      EXPECT_GT(realized.completion, 1 - 1e-5) << name_of(exact) << more;
      EXPECT_EQ(realized.overshoot, 0);
    }
  }
}

// Fidelity, leakage and what is left of the mass, against the specification's functions on the rows
// themselves.
TEST_F(Ladder, MeasuresEqualTheReference) {
  std::vector<reference::Values> before(bank.states()), teacher(bank.states());
  walk_rows(prober.before().hidden_SH, pair.student.head_VH, bank.teacher_hidden_SX, pair.teacher.head_VH,
            kTinyIds, [&](std::size_t s, std::span<const float> a, std::span<const float> b) {
              before[s].assign(a.begin(), a.end());
              teacher[s].assign(b.begin(), b.end());
            });
  for (const Intervention kind :
       {Intervention::kPairIsolated, Intervention::kPotentialWide, Intervention::kPotentialMatched,
        Intervention::kFreshAdamW, Intervention::kSgd}) {
    Kept kept;
    const ProbeRow row = prober.run(named("routeopd"), kind, kept.sink());
    for (std::size_t s = 0; s < bank.states(); ++s) {
      double fidelity = 0, judged = 0, leakage = 0, mass = 0, rows = 0;
      for (const auto& [at, after] : kept.rows) {
        if (at.first != s) continue;
        if (const auto one = reference::fidelity(bank.frozen.transport_S[s], before[s], after)) {
          fidelity += *one;
          ++judged;
        }
        leakage += reference::leakage(teacher[s], before[s], after, bank.objective.delta_diag);
        reference::Values on_union;
        for (const std::int32_t id : bank.frozen.transport_S[s].ids)
          on_union.push_back(after[static_cast<std::size_t>(id)]);
        const reference::Values p = reference::softmax(on_union);
        for (std::size_t i = 0; i < p.size(); ++i)
          mass += std::abs(p[i] - bank.frozen.transport_S[s].p_teacher[i]) / 2;
        ++rows;
      }
      ASSERT_EQ(rows, kind == Intervention::kPairIsolated ? 3 : 1);
      if (judged > 0) {
        EXPECT_NEAR(row.changes.fidelity_S[s], fidelity / judged, 1e-9);
      } else {
        EXPECT_TRUE(std::isnan(row.changes.fidelity_S[s]));
      }
      EXPECT_NEAR(row.changes.leakage_S[s], leakage / rows, 1e-9);
      EXPECT_NEAR(row.changes.mass_after_S[s], mass / rows, 1e-9);
    }
  }
}

TEST_F(Ladder, EveryArmIsScaledToOneRms) {
  const double rms = *prober.matched_rms();
  EXPECT_GT(rms, 0);
  const ProbeRow own = prober.run(named("routeopd"), Intervention::kFreshAdamW);
  EXPECT_NEAR(own.scale, 1, 1e-3);
  EXPECT_NEAR(own.rms / rms, 1, 1e-6);
  std::vector<ProbeArm> arms;
  for (const std::string& name : routing::arm_names())
    if (name != "sft") arms.push_back(named(name));
  arms.push_back(named("routeopd", {{"pairs", "exact"}}));
  arms.push_back(named("routeopd", {{"k", "full"}}));
  for (const ProbeArm& arm : arms) {
    for (const Intervention kind : {Intervention::kFreshAdamW, Intervention::kSgd}) {
      const ProbeRow row = prober.run(arm, kind);
      EXPECT_NEAR(row.rms / rms, 1, 1e-3) << arm.name;
    }
  }
  EXPECT_NEAR(prober.run(named("routeopd"), Intervention::kPotentialMatched).rms / rms, 1, 1e-9);
}

TEST_F(Ladder, UpdatesAreScaledToTheSizeThatWasAskedFor) {
  const auto sized = [&](const MatchedSize& size) {
    return Prober(bank, pair.student, pair.teacher.head_VH, settings(), /*banks_own=*/true, nullptr, size);
  };
  double squares = 0, pairs = 0;
  for (std::size_t i = 0; i < bank.frozen.target_SM.size(); ++i) {
    if (bank.frozen.source_SM[i] < 0) continue;
    squares += std::pow(static_cast<double>(bank.frozen.target_SM[i]), 2);
    ++pairs;
  }
  const double targets = std::sqrt(squares / pairs);
  ASSERT_GT(targets, 0.05);
  for (const auto& [word, rms] : {std::pair("targets", targets), std::pair("0.02", 0.02)}) {
    Prober other = sized(matched_size_of(word));
    EXPECT_NEAR(*other.matched_rms(), rms, 1e-12) << word;
    for (const char* arm : {"routeopd", "sampled_rkl", "source_only"}) {
      EXPECT_NEAR(other.run(named(arm), Intervention::kFreshAdamW).rms / rms, 1, 1e-3) << word << " " << arm;
      EXPECT_NEAR(other.run(named(arm), Intervention::kSgd).rms / rms, 1, 1e-3) << word << " " << arm;
    }
    EXPECT_NEAR(other.run(named("routeopd"), Intervention::kPotentialMatched).rms / rms, 1, 1e-9);
  }
  Prober as_it_is = sized(matched_size_of("none"));
  EXPECT_FALSE(as_it_is.matched_rms());
  EXPECT_FALSE(as_it_is.applies(named("routeopd"), Intervention::kPotentialMatched));
  const ProbeRow own = as_it_is.run(named("routeopd"), Intervention::kFreshAdamW);
  EXPECT_EQ(own.scale, 1);
  EXPECT_NEAR(own.rms / *prober.matched_rms(), 1, 1e-9) << "what the others are matched to unless told";
  EXPECT_EQ(as_it_is.run(named("full_rkl"), Intervention::kSgd).scale, 1);
  for (const char* word : {"0", "-1", "given", "nan", "half", ""})
    EXPECT_THAT(error_of([&] { matched_size_of(word); }),
                testing::HasSubstr("--rms: expected a number over 0"));
}

// One gradient serves all rates: each is the row that a probe without scaling has at that rate, for arms that
// draw pairs and for arms that are judged by the bank's.
TEST_F(Ladder, StepSizesAreThoseOfUnscaledRows) {
  const std::vector<double> rates = {1e-4, 1e-3, 5e-3};
  for (const char* arm : {"routeopd", "fixed_mid", "sampled_rkl", "full_rkl", "union_rkl", "source_only"}) {
    const std::vector<StepSize> sizes = step_sizes(prober, named(arm), rates);
    ASSERT_EQ(sizes.size(), rates.size());
    for (std::size_t i = 0; i < rates.size(); ++i) {
      SCOPED_TRACE(fmt::format("{} {}", arm, rates[i]));
      train::OptimizerSection optimizer = settings();
      optimizer.lr = rates[i];
      Prober unscaled(bank, pair.student, pair.teacher.head_VH, optimizer, /*banks_own=*/true, nullptr,
                      {.kind = MatchedSize::Kind::kNone});
      const ProbeRow row = unscaled.run(named(arm), Intervention::kFreshAdamW);
      const Realization realized = realization(row.changes, bank.objective.delta_target);
      EXPECT_EQ(sizes[i].lr, rates[i]);
      EXPECT_NEAR(sizes[i].rms / row.rms, 1, 1e-4);
      EXPECT_EQ(sizes[i].pairs, realized.pairs);
      EXPECT_GT(realized.pairs, 30);
      EXPECT_NEAR(sizes[i].completion, realized.completion, 1e-4);
      EXPECT_NEAR(sizes[i].overshoot, realized.overshoot, 1.5 / static_cast<double>(realized.pairs));
      const Json summary = summary_of(row, bank, bank.frozen);
      const auto close = [](const Json& interval, const grade::Interval& own, double mean) {
        EXPECT_NEAR(interval[0].get<double>(), own.low, 0.02);
        EXPECT_NEAR(interval[1].get<double>(), own.high, 0.02);
        EXPECT_NEAR(own.mean, mean, 1e-12);
        EXPECT_LE(own.low, mean);
        EXPECT_GE(own.high, mean);
      };
      close(summary["completion_interval"], sizes[i].completion_interval, sizes[i].completion);
      close(summary["overshoot_interval"], sizes[i].overshoot_interval, sizes[i].overshoot);
    }
    EXPECT_LT(sizes[0].rms, sizes[1].rms);
    EXPECT_LT(sizes[1].rms, sizes[2].rms);
    EXPECT_LT(sizes[0].completion, sizes[2].completion) << arm;
    EXPECT_LE(sizes[0].overshoot, sizes[2].overshoot) << arm;
  }
  EXPECT_TRUE(at::equal(pair.student.head_VH, model::load_model(tiny("student")).head_VH));
}

TEST_F(Ladder, TheStudentIsLeftAsItWas) {
  const model::Model before = model::clone_model(pair.student);
  prober.run(named("full_rkl"), Intervention::kFreshAdamW);
  const ProbeRow first = prober.run(named("routeopd"), Intervention::kSgd);
  const auto was = model::parameters(before), is = model::parameters(pair.student);
  for (std::size_t i = 0; i < was.size(); ++i) {
    EXPECT_TRUE(at::equal(was[i].tensor, is[i].tensor)) << was[i].name;
    EXPECT_FALSE(is[i].tensor.requires_grad()) << was[i].name;
  }
  const ProbeRow again = prober.run(named("routeopd"), Intervention::kSgd);
  EXPECT_EQ(first.changes.achieved_SM, again.changes.achieved_SM) << "one probe must not move the next";
}

// A step on the routes of the bank moves the pairs toward their targets; turned round, away from them.
TEST_F(Ladder, AnUpdateGoesWhereTheRoutesPoint) {
  const ProbeRow row = prober.run(named("routeopd"), Intervention::kFreshAdamW);
  double along = 0;
  for (std::size_t i = 0; i < row.changes.target_SM.size(); ++i)
    along += row.changes.achieved_SM[i] * row.changes.target_SM[i];
  EXPECT_GT(along, 0);
  EXPECT_GT(realization(row.changes, bank.objective.delta_target).completion, 0);
}

TEST_F(Ladder, AppliesWhereAnArmHasWhatItNeeds) {
  const auto applies = [&](const ProbeArm& arm, Intervention kind) { return prober.applies(arm, kind); };
  EXPECT_TRUE(applies(named("rank_matched"), Intervention::kPairIsolated));
  EXPECT_FALSE(applies(named("rank_matched"), Intervention::kPotentialWide));
  EXPECT_FALSE(applies(named("independent_clipping"), Intervention::kPotentialWide));
  EXPECT_FALSE(applies(named("sampled_rkl"), Intervention::kPairIsolated));
  EXPECT_FALSE(applies(named("source_only"), Intervention::kPairIsolated));
  EXPECT_TRUE(applies(named("sampled_rkl"), Intervention::kSgd));
  EXPECT_FALSE(applies(named("routeopd"), Intervention::kSavedAdamW)) << "no moments were given";
  EXPECT_FALSE(applies(named("sft"), Intervention::kFreshAdamW)) << "it knows no teacher";
}

// For another student the states stay and the problem is that student's.
TEST_F(Ladder, AnotherStudentGetsItsOwnProblem) {
  model::Model later = model::clone_model(pair.student);
  later.norm_H.mul_(1.2);
  const Prober of_later(bank, later, pair.teacher.head_VH, settings(), /*banks_own=*/false);
  EXPECT_NE(of_later.frozen().transport_S[0].mass, bank.frozen.transport_S[0].mass);
  EXPECT_EQ(of_later.frozen().teacher_logsumexp_S, bank.frozen.teacher_logsumexp_S);
  const Prober of_same(bank, pair.student, pair.teacher.head_VH, settings(), /*banks_own=*/false);
  EXPECT_EQ(of_same.frozen().source_SM, bank.frozen.source_SM);
  EXPECT_EQ(of_same.frozen().transport_S[3].mass, bank.frozen.transport_S[3].mass);
}

// make_step against the optimizer that trains.
TEST(ParameterStep, IsTheUpdateOfTraining) {
  const TemporaryDirectory directory;
  model::Model student = model::load_model(tiny("student"));
  const std::vector<model::Parameter> parameters = model::parameters(student);
  train::OptimizerSection options = settings();
  options.clip = 0.5;
  train::AdamW optimizer(parameters, options);
  const auto gradients = [&](std::uint64_t seed) {
    at::manual_seed(seed);
    std::vector<at::Tensor> all;
    for (const model::Parameter& parameter : parameters)
      all.push_back(at::randn_like(parameter.tensor).mul_(1e-3));
    return all;
  };
  const auto check = [&](StepRule rule, const SavedMoments* saved, std::uint64_t seed) {
    std::vector<at::Tensor> step = gradients(seed), given = gradients(seed), before;
    for (const model::Parameter& parameter : parameters) before.push_back(parameter.tensor.clone());
    make_step(step, parameters, rule, options, saved);
    optimizer.step(given, options.lr);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_LT(relative_error(step[i], parameters[i].tensor - before[i]), 2e-4) << parameters[i].name;
  };
  check(StepRule::kFreshAdamW, nullptr, 1);
  optimizer.resume(7);  // moments are those of one update, the count says seven
  std::filesystem::create_directories(directory.path() / "state");
  model::save_tensors(directory.path() / "state" / "optimizer.safetensors", optimizer.state());
  write_file(directory.path() / "state" / "state.json", R"({"updates": 7})");
  const SavedMoments saved(directory.path());
  EXPECT_EQ(saved.updates(), 7);
  check(StepRule::kSavedAdamW, &saved, 2);

  std::vector<at::Tensor> plain = gradients(3), clipped = gradients(3);
  make_step(plain, parameters, StepRule::kSgd, options, nullptr);
  train::clip_to_norm(clipped, options.clip);
  EXPECT_LT(relative_error(plain[1], clipped[1] * -kLr), 1e-6);
  plain[0].fill_(NAN);
  EXPECT_THROW(make_step(plain, parameters, StepRule::kSgd, options, nullptr), UserError);
}

// The variance that is computed against one that is drawn.
TEST_F(Ladder, LossVarianceIsThatOfRedraws) {
  for (const char* arm : {"routeopd", "no_mass", "independent_clipping", "source_only"}) {
    const routing::ObjectiveOptions options = named(arm).objective;
    const ArmStatistics told = prober.statistics(named(arm));
    constexpr std::uint64_t kRedraws = 2000;
    double variance = 0, routed = 0;
    std::size_t at = 0;
    for (std::size_t s = 0; s < bank.states(); ++s) {
      const reference::Transport& base = bank.frozen.transport_S[s];
      reference::Values teacher;
      for (std::size_t i = 0; i < base.ids.size(); ++i) teacher.push_back(bank.frozen.teacher_logits_L[at++]);
      const reference::Transport state =
          reference::transport(base.ids, base.student_logits, teacher, options);
      reference::Values logits(kTinyIds, -30.0);
      for (std::size_t i = 0; i < base.ids.size(); ++i)
        logits[static_cast<std::size_t>(base.ids[i])] = base.student_logits[i];
      double sum = 0, squares = 0;
      for (std::uint64_t seed = 0; seed < kRedraws; ++seed) {
        const auto pairs = reference::sample_pairs(state, {}, options, seed, {});
        const double loss = reference::pair_loss(state, pairs, logits, logits, options).loss;
        sum += loss;
        squares += loss * loss;
      }
      variance += squares / kRedraws - sum / kRedraws * sum / kRedraws;
      ++routed;
    }
    EXPECT_NEAR(*told.loss_variance / (variance / routed), 1, 0.03) << arm;
  }
}

// The moments by powers of the potentials against the sum over all pairs.
TEST_F(Ladder, LossVarianceIsThatOfTheWholeCoupling) {
  const routing::ObjectiveOptions options = named("routeopd").objective;
  for (std::size_t s = 0; s < bank.states(); ++s) {
    const reference::Transport& state = bank.frozen.transport_S[s];
    double first = 0, second = 0;
    for (std::size_t a = 0; a < state.ids.size(); ++a) {
      for (std::size_t b = 0; b < state.ids.size(); ++b) {
        const double moved = state.bounded[b] - state.bounded[a], loss = state.mass * moved * moved / 2;
        first += state.q_minus[a] * state.q_plus[b] * loss;
        second += state.q_minus[a] * state.q_plus[b] * loss * loss;
      }
    }
    const StateDemand demand = demand_of(state, options, 42, {});
    EXPECT_NEAR(demand.loss_mean, first, 1e-14);
    EXPECT_NEAR(demand.loss_variance, (second - first * first) / 3, 1e-14);
  }
}

// k is the arm's own: a wider support holds more mass, and other pairs.
TEST_F(Ladder, StatisticsAreOfTheArmsOwnSupport) {
  const ArmStatistics narrow = prober.statistics(named("routeopd", {{"k", 2}})),
                      wide = prober.statistics(named("routeopd", {{"k", "full"}}));
  EXPECT_LT(*narrow.student_mass, *wide.student_mass);
  EXPECT_LT(*narrow.teacher_mass, *wide.teacher_mass);
  EXPECT_NEAR(*wide.student_mass, 1, 1e-5);
  EXPECT_GT(*narrow.coverage, *wide.coverage) << "three pairs cover two ids better than all";
  EXPECT_FALSE(prober.statistics(named("full_rkl")).budget);
}

// Of the destinations that the pairs use, as in a run's metrics: a control's b' in place of the b that was
// drawn, and nothing for one outside D.
TEST_F(Ladder, CoverageIsOfTheDestinationsUsed) {
  for (const char* arm : {"teacher_deficit", "uniform_deficit", "student_proportional", "rank_matched"}) {
    const Changes drawn = prober.run(named(arm), Intervention::kPairIsolated).changes;
    double covered = 0, routed = 0, outside = 0;
    for (std::size_t s = 0; s < bank.states(); ++s) {
      const reference::Transport& state = bank.frozen.transport_S[s];
      std::set<std::int32_t> seen;
      for (std::size_t i = 3 * s; i < 3 * (s + 1); ++i) {
        const std::int32_t id = drawn.destination_SM[i];
        const auto at = std::lower_bound(state.ids.begin(), state.ids.end(), id);
        const double share = at != state.ids.end() && *at == id
                                 ? state.q_plus[static_cast<std::size_t>(at - state.ids.begin())]
                                 : 0;
        outside += share == 0 ? 1 : 0;
        if (seen.insert(id).second) covered += share;
      }
      ++routed;
    }
    EXPECT_NEAR(*prober.statistics(named(arm)).coverage, covered / routed, 1e-5) << arm;
    EXPECT_EQ(outside > 0, std::string(arm) == "student_proportional" || std::string(arm) == "rank_matched");
  }
  EXPECT_EQ(*prober.statistics(named("rank_matched")).coverage, 0);
  EXPECT_FALSE(prober.statistics(named("routeopd", {{"pairs", "exact"}})).coverage);
}

// A state that the bank has no route for has no value in any row, whether its logits were set by hand or
// moved with the weights.
TEST_F(Ladder, StatesWithoutARouteAreTreatedAlikeInAllRows) {
  const Bank some = tiny_bank(pair, 40, {{"k", 6}, {"m", 3}, {"delta_m", 0.2}});
  Prober ladder{some, pair.student, pair.teacher.head_VH, settings(), /*banks_own=*/true};
  double routed = 0;
  for (const auto& state : some.frozen.transport_S) routed += state.routed ? 1 : 0;
  ASSERT_GT(routed, 0);
  ASSERT_LT(routed, 40);
  for (const char* arm : {"routeopd", "rank_matched", "sampled_rkl"}) {
    for (const Intervention kind : kInterventions) {
      const ProbeArm of = named(arm, {{"delta_m", 0.2}});
      if (!ladder.applies(of, kind)) continue;
      const Changes changes = ladder.run(of, kind).changes;
      for (std::size_t s = 0; s < some.states(); ++s) {
        const bool judged = some.frozen.transport_S[s].routed;
        EXPECT_EQ(std::isnan(changes.leakage_S[s]), !judged) << arm << " " << name_of(kind) << " " << s;
        EXPECT_EQ(std::isnan(changes.mass_after_S[s]), !judged) << arm << " " << name_of(kind) << " " << s;
        EXPECT_TRUE(judged || std::isnan(changes.fidelity_S[s])) << arm << " " << name_of(kind) << " " << s;
      }
    }
  }
}

// Budgets by concentration are the arm's, not the bank's.
TEST_F(Ladder, BudgetsAreTheArms) {
  const ProbeRow row = prober.run(named("fixed_high"), Intervention::kPairIsolated);
  for (std::size_t s = 0; s < bank.states(); ++s)
    EXPECT_NEAR(row.changes.budget_S[s], bank.frozen.transport_S[s].routed ? std::log(1.5) : 0, 1e-6);
  EXPECT_TRUE(prober.run(named("sampled_rkl"), Intervention::kSgd).changes.budget_S.empty());
}

TEST_F(Ladder, OneSharedPotentialHasNoCycleToViolate) {
  EXPECT_EQ(*prober.statistics(named("routeopd")).cycle_violations, 0);
  EXPECT_EQ(*prober.statistics(named("fixed_high")).cycle_violations, 0);
  EXPECT_GT(*prober.statistics(named("independent_clipping")).cycle_violations, 0);
  EXPECT_FALSE(prober.statistics(named("full_rkl")).cycle_violations);
}

}  // namespace
}  // namespace routeopd::probe
