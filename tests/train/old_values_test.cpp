// Old values of the learner's own: Delta is zero at a first update whatever the engine said, later updates
// compare with the forward before it, and the distance from the engine is measured and may be weighed.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "old_values_testing.h"
#include "routeopd/train/metrics.h"

namespace routeopd::train {
namespace {

struct OldArm {
  const char* name;
  const char* arm;
  Json more;
};

// One of each kind of old value: log-odds, logits on U, one side's log-probability, the taken token's.
class LearnersOldValues : public ::testing::TestWithParam<OldArm> {
 protected:
  OldStep step() const { return OldStep(GetParam().arm, GetParam().more); }
};

TEST_P(LearnersOldValues, AFirstUpdateDoesNotReadTheEngines) {
  OldStep exact = step();
  const at::Tensor truth = exact.first_gradient(OldScores::kCapture);
  OldStep spoilt = step();
  spoilt.spoil_engine(0.3);
  // In float32 the two forwards agree to rounding; the tolerance is the one of the golden gradients.
  EXPECT_LT(relative_error(spoilt.first_gradient(OldScores::kLearner), truth), 1e-4);
  EXPECT_GT(relative_error(spoilt.first_gradient(OldScores::kCapture), truth), 0.05)
      << "the engine's error must matter where it is read";
}

// The reference: old values of the starting student, computed plainly and frozen, for a learner that reads
// frozen ones.
TEST_P(LearnersOldValues, LaterMinibatchesAndEpochsCompareWithTheForwardBeforeTheFirst) {
  std::vector<at::Tensor> changes;
  for (const bool own : {true, false}) {
    OldStep one = step();
    if (own) one.spoil_engine(0.3);
    if (!own) one.take_plain_values();
    one.recipe.rollout.old_scores = own ? OldScores::kLearner : OldScores::kCapture;
    one.recipe.train.minibatches = 2;
    one.recipe.train.epochs = 2;
    one.recipe.train.micro_tokens = 30;  // several forwards a minibatch
    one.recipe.optimizer.lr = 1e-3;
    one.recipe.optimizer.eps = 1e-4;  // near zero, AdamW's step is the sign of rounding
    const at::Tensor before = one.weights();
    Learner learner(one.student, one.teacher.head_VH, one.real_ids, one.recipe);
    const UpdateResult update = learner.update(one.experience());
    EXPECT_EQ(update.updates, 4);
    EXPECT_EQ(update.capture_error.has_value(), !own && GetParam().more.empty()) << "0 by definition";
    changes.push_back(one.weights() - before);
  }
  EXPECT_LT(relative_error(changes[0], changes[1]), 1e-3);

  // Old values that stay at the first update's would make every update a first one.
  OldStep forgetful = step();
  forgetful.recipe.train.minibatches = 2;
  forgetful.recipe.optimizer.lr = 1e-3;
  forgetful.recipe.optimizer.eps = 1e-4;
  forgetful.recipe.rollout.old_scores = OldScores::kLearner;
  const at::Tensor before = forgetful.weights();
  Learner learner(forgetful.student, forgetful.teacher.head_VH, forgetful.real_ids, forgetful.recipe);
  learner.update(forgetful.experience());
  learner.update(forgetful.experience());
  EXPECT_GT(relative_error(forgetful.weights() - before, changes[1]), 5e-3)
      << "Delta must matter in the second epoch";
}

INSTANTIATE_TEST_SUITE_P(Kinds, LearnersOldValues,
                         ::testing::Values(OldArm{"pairs", "routeopd", Json::object()},
                                           OldArm{"coupling", "routeopd", {{"pairs", "exact"}}},
                                           OldArm{"source", "source_only", Json::object()},
                                           OldArm{"destination", "destination_only", Json::object()},
                                           OldArm{"sampled", "sampled_rkl", Json::object()}),
                         [](const auto& arm) { return std::string(arm.param.name); });

// Each arm reports what its first forward has at hand, and no more.
TEST(EngineGap, IsTheRmsOfWhatTheFirstForwardSees) {
  for (const char* arm : {"routeopd", "sampled_rkl", "source_only", "full_rkl", "full_fkl", "union_rkl"}) {
    for (const OldScores old : {OldScores::kCapture, OldScores::kLearner}) {
      OldStep step(arm);
      OldStep plain(arm);
      plain.take_plain_values();
      step.spoil_engine(1.05 * objective::kEngineGapThreshold);  // past it at some states
      step.routes.validity_N[5] = Validity::kNonFinite;
      std::fill_n(step.routes.source_NM.begin() + 5 * step.routes.pairs, step.routes.pairs, -1);
      double log_odds = 0, logprobs = 0, pairs = 0, states = 0, past = 0;
      const bool dense = std::string(arm) != "routeopd" && std::string(arm) != "union_rkl";
      const auto m = static_cast<std::size_t>(step.routes.pairs);
      for (std::size_t n = 0; n < step.rollout.id_N.size(); ++n) {
        double largest = -1;
        for (std::size_t i = n * m; std::string(arm) == "routeopd" && i < (n + 1) * m; ++i) {
          if (step.routes.source_NM[i] < 0) continue;
          const double gap =
              static_cast<double>(plain.routes.old_NM[i]) - static_cast<double>(step.routes.old_NM[i]);
          log_odds += gap * gap;
          largest = std::max(largest, std::abs(gap));
          ++pairs;
        }
        const bool routed = std::string(arm) != "source_only" || step.routes.source_NM[n * m] >= 0;
        if (dense && routed && step.routes.validity_N[n] == Validity::kValid) {
          const double gap = static_cast<double>(plain.rollout.logprob_N[n]) -
                             static_cast<double>(step.rollout.logprob_N[n]);
          logprobs += gap * gap;
          largest = std::max(largest, std::abs(gap));
        }
        states += largest >= 0 ? 1 : 0;
        past += largest > objective::kEngineGapThreshold ? 1 : 0;
      }
      step.recipe.rollout.old_scores = old;
      Learner learner(step.student, step.teacher.head_VH, step.real_ids, step.recipe);
      const UpdateResult update = learner.update(step.experience());
      const auto gap = step_metrics(1, step_totals(step.experience()), {}, update).engine_gap;
      EXPECT_EQ(gap.contains("log_odds"), pairs > 0) << arm;
      EXPECT_EQ(gap.contains("logprob"), dense) << arm;
      EXPECT_EQ(gap.contains("share"), states > 0) << arm;
      if (pairs > 0) {
        EXPECT_NEAR(gap.at("log_odds"), std::sqrt(log_odds / pairs), 1e-5) << arm;
      }
      if (dense) {
        EXPECT_NEAR(gap.at("logprob"), std::sqrt(logprobs / states), 1e-5) << arm;
      }
      if (states > 0) {
        EXPECT_NEAR(gap.at("share"), past / states, 1e-9) << arm;
        EXPECT_GT(gap.at("share"), 0.1) << arm;
        EXPECT_LT(gap.at("share"), 1.0) << arm;
      }
    }
  }
}

// The weight of a state is a constant: it scales the state's loss and its gradient.
TEST(RolloutCorrection, ScalesEachStateByATruncatedRatio) {
  const auto corrected = [](double learner_over_engine, RolloutCorrection correction) {
    OldStep step("sampled_rkl");
    step.take_plain_values();
    for (float& logprob : step.rollout.logprob_N)
      logprob -= static_cast<float>(std::log(learner_over_engine));
    step.recipe.rollout.rollout_correction = correction;
    return step.first_gradient(OldScores::kLearner);
  };
  const at::Tensor plain = corrected(1.0, RolloutCorrection::kNone);
  EXPECT_LT(relative_error(corrected(1.5, RolloutCorrection::kNone), plain), 1e-6) << "none weighs nothing";
  EXPECT_LT(relative_error(corrected(0.25, RolloutCorrection::kTruncate), 0.25 * plain), 1e-5);
  EXPECT_LT(relative_error(corrected(1.5, RolloutCorrection::kTruncate), 1.5 * plain), 1e-5);
  EXPECT_LT(relative_error(corrected(7.0, RolloutCorrection::kTruncate), 2.0 * plain), 1e-5) << "at most 2";

  // State by state: the loss of a first update is -mean w A.
  OldStep step("sampled_rkl");
  OldStep truth("sampled_rkl");
  truth.take_plain_values();
  step.spoil_engine(1.5);
  double sum = 0;
  for (std::size_t n = 0; n < step.rollout.id_N.size(); ++n) {
    const double old = truth.rollout.logprob_N[n];
    const double weight = std::min(2.0, std::exp(old - static_cast<double>(step.rollout.logprob_N[n])));
    sum -= weight * (static_cast<double>(step.scores.teacher_logprob_N[n]) - old);
  }
  step.recipe.rollout.old_scores = OldScores::kLearner;
  step.recipe.rollout.rollout_correction = RolloutCorrection::kTruncate;
  Learner learner(step.student, step.teacher.head_VH, step.real_ids, step.recipe);
  const double mean = sum / static_cast<double>(step.rollout.states());
  EXPECT_NEAR(learner.update(step.experience()).loss, mean, 1e-5 * std::abs(mean));
}

}  // namespace
}  // namespace routeopd::train
