// What a step says of itself, on four states by hand: two routed, one valid without a route, one not valid.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace routeopd::train {
namespace {

TEST(StepMetrics, AverageOverTheRightStates) {
  Rollout rollout;
  rollout.prompt_ids_P = {{1}};
  rollout.responses_B = {{.length = 3, .finish = Finish::kLength}, {.first_state = 3, .length = 1}};
  rollout.id_N = {5, 6, 7, 8};
  rollout.columns = 2;
  rollout.logsumexp_N = {0, 0, 0, 0};
  rollout.entropy_N = {1, 2, 3, 5};
  const float half = std::log(0.5F), quarter = std::log(0.25F);
  rollout.top_logits_NK = {half, quarter, half, quarter, half, quarter, 9, 9};  // the rest: a quarter
  Scores scores;
  scores.columns = 1;
  scores.teacher_logsumexp_N = rollout.logsumexp_N;
  scores.teacher_logits_NJ = {half, half, half, 9};
  scores.teacher_tokens = 11;
  Routes routes;
  routes.states = 4;
  routes.pairs = 1;
  routes.validity_N = {Validity::kValid, Validity::kValid, Validity::kValid, Validity::kNonFinite};
  routes.routed_N = {1, 1, 0, 0};
  routes.source_NM = {2, 3, -1, -1};
  routes.mass_N = {0.6F, 0.3F, 0.0F, 7};
  routes.concentration_N = {0.2F, 0.4F, 7, 7};
  routes.budget_N = routes.saturated_N = routes.coverage_N = routes.concentration_N;
  routes.student_mass_N = {0.9F, 0.8F, 0.7F, 7};
  routes.teacher_mass_N = {0.5F, std::nanf(""), 0.7F, 7};
  UpdateResult update;
  update.loss = 0.25;
  const Json metrics = json_of(step_metrics(3, step_totals({&rollout, &scores, &routes}), {}, update));

  const auto number = [&](const char* name) { return metrics[name].get<double>(); };
  EXPECT_EQ(metrics["step"], 3);
  EXPECT_EQ(metrics["tokens"], 4);
  EXPECT_DOUBLE_EQ(number("clip_ratio"), 0.5);
  EXPECT_DOUBLE_EQ(number("response_tokens"), 2);
  EXPECT_NEAR(number("mass"), 0.3, 1e-7);           // over the valid
  EXPECT_NEAR(number("concentration"), 0.3, 1e-7);  // over the routed
  EXPECT_NEAR(number("coverage"), 0.3, 1e-7);
  EXPECT_NEAR(number("student_mass"), 0.8, 1e-7);
  EXPECT_NEAR(number("teacher_mass"), 0.6, 1e-7) << "a mass that is not known counts for nothing";
  EXPECT_NEAR(number("routed_share"), 2.0 / 3, 1e-12);
  EXPECT_NEAR(number("entropy"), 1.5 * std::log(2.0), 1e-6);
  EXPECT_NEAR(number("teacher_entropy"), std::log(2.0), 1e-6);
  EXPECT_DOUBLE_EQ(number("policy_entropy"), 2.75) << "over all response tokens";
  EXPECT_EQ(metrics["validity"], (Json{{"valid", 3}, {"non_finite", 1}, {"not_routed", 1}}));
  EXPECT_EQ(metrics["teacher_calls"], 2);
  EXPECT_EQ(metrics["teacher_tokens"], 11);
  EXPECT_TRUE(metrics["capture_error"].is_null()) << "nobody measured it";
}

}  // namespace
}  // namespace routeopd::train
