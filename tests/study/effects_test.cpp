// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/effects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "routeopd/study/study_view.h"

namespace routeopd::study {
namespace {

using ::testing::ElementsAre;

TEST(Effects, CellsAndMeansOfAStudy) {
  EXPECT_EQ(points({.mean = 0.01, .low = -0.02, .high = 0.03}), "+1.00 [-2.00, +3.00]");
  EXPECT_EQ(mean_of({1.0, std::nullopt, 3.0}), 2);
  EXPECT_EQ(mean_of({std::nullopt}), std::nullopt);
  EXPECT_EQ(spread_of({1}), std::nullopt);
  EXPECT_DOUBLE_EQ(*spread_of({1, 2, 6}), 2.6457513110645907);  // numpy.std([1, 2, 6], ddof=1)
}

TEST(Effects, AnIntervalThatHoldsZeroShowsNothing) {
  EXPECT_EQ(outcome_of(1.1, {.mean = 0.01, .low = 0.001, .high = 0.02}), Outcome::kShown);
  EXPECT_EQ(outcome_of(1.1, {.mean = 0.01, .low = 0, .high = 0.02}), Outcome::kNotShown);
  EXPECT_EQ(outcome_of(1.1, {.mean = -0.01, .low = -0.02, .high = 0}), Outcome::kNotShown);
  EXPECT_EQ(outcome_of(1.1, {.mean = -0.01, .low = -0.02, .high = -0.001}), Outcome::kOpposite);
  EXPECT_EQ(outcome_of(-1.1, {.mean = -0.01, .low = -0.02, .high = -0.001}), Outcome::kShown);
  EXPECT_EQ(outcome_of(-1.1, {.mean = 0.01, .low = 0.001, .high = 0.02}), Outcome::kOpposite);
}

std::vector<std::string> cells(const Verdict& verdict) {
  return {verdict.effect, verdict.paper, verdict.here, verdict.outcome};
}

TEST(Effects, RowsHaveBothNumbersAndTheOutcome) {
  EXPECT_THAT(cells(effect_verdict("accuracy", "routeopd", "fixed_mid", 1.1,
                                   {.mean = -0.006, .low = -0.013, .high = 0.001})),
              ElementsAre("accuracy, routeopd over fixed_mid", "+1.10", "-0.60 [-1.30, +0.10]", "not shown"));
  EXPECT_THAT(cells(effect_verdict("x", "a", "b", -0.28, {.mean = 0.02, .low = 0.01, .high = 0.03})),
              ElementsAre("x, a over b", "-0.28", "+2.00 [+1.00, +3.00]", "the opposite"));
}

TEST(Effects, LevelsAreJudgedByTheBestEvidenceThereIs) {
  Level first{.name = "a", .paper = 90, .here = 70, .interval = {}};
  Level second{.name = "b", .paper = 30, .here = 60, .interval = {}};
  EXPECT_THAT(cells(level_verdict("x", first, second, 0)),
              ElementsAre("x, a over b", "90 against 30", "70 against 60", "same order (no interval)"));
  EXPECT_THAT(cells(level_verdict("x", second, first, 0)),
              ElementsAre("x, b over a", "30 against 90", "60 against 70", "same order (no interval)"));
  EXPECT_EQ(level_verdict("x", first, second, 0, {.difference = {}, .per_seed = {1.0, -1.0, 2.0}}).outcome,
            "same order (in 2 of 3 seeds as in the paper)");
  first.interval = grade::Interval{70, 55, 75};
  second.interval = grade::Interval{60, 50, 65};
  EXPECT_THAT(cells(level_verdict("x", first, second, 0)),
              ElementsAre("x, a over b", "90 against 30", "70 [55, 75] against 60 [50, 65]",
                          "not shown (the intervals overlap)"));
  first.interval->low = 66;
  EXPECT_EQ(level_verdict("x", first, second, 0).outcome, "shown");
  std::swap(first.paper, second.paper);
  EXPECT_EQ(level_verdict("x", first, second, 0).outcome, "the opposite");
  // A paired difference counts before intervals of the two.
  EXPECT_THAT(
      cells(
          level_verdict("x", first, second, 1, {.difference = grade::Interval{10, -1, 20}, .per_seed = {}})),
      ElementsAre("x, a over b", "30.0 against 90.0", "70.0 against 60.0: +10.0 [-1.0, +20.0]", "not shown"));
  const Level small{.name = "a", .paper = 1e-4, .here = 1.23456e-7, .interval = {}},
      large{.name = "b", .paper = 0.25, .here = 2e-7, .interval = {}};
  EXPECT_THAT(cells(level_verdict("x", small, large, kSignificant)),
              ElementsAre("x, a over b", "0.0001 against 0.25", "1.23e-07 against 2e-07",
                          "same order (no interval)"));
}

TEST(Effects, ChangesGoThePapersWayOrAnother) {
  EXPECT_THAT(cells(change_verdict("mass", {9, 7}, {11.5, 9.25}, 1)),
              ElementsAre("mass", "9.0 → 7.0", "11.5 → 9.2", "same direction (no interval)"));
  EXPECT_EQ(change_verdict("mass", {9, 7}, {5, 6}, 1).outcome, "other direction (no interval)");
  EXPECT_EQ(change_verdict("mass", {9, 7}, {5, 5}, 1).outcome, "other direction (no interval)");
}

TEST(Effects, OneTableHasAllVerdictsAndCountsThem) {
  const auto row = [](const char* outcome) {
    return Verdict{.effect = "e", .paper = "p", .here = "h", .outcome = outcome, .part = "Accuracy"};
  };
  const report::Block block = verdict_table({row("shown"), row("not shown"), row("not shown (x)"),
                                             row("the opposite"), row("same order (no interval)")});
  EXPECT_EQ(block.words,
            "Of 5 effects of the paper 1 is shown here, 2 not shown (the interval holds 0) and 1 the "
            "opposite; 1 have no interval to decide by.");
  ASSERT_TRUE(block.table);
  EXPECT_THAT(block.table->rows().front(), ElementsAre("Accuracy", "e", "p", "h", "shown"));
  EXPECT_EQ(block.table->rows().size(), 5U);
  EXPECT_FALSE(verdict_table({}).table);
}

}  // namespace
}  // namespace routeopd::study
