// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/effects.h"

#include <gtest/gtest.h>

#include "routeopd/study/study_view.h"

namespace routeopd::study {
namespace {

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

TEST(Effects, SentencesSayBothNumbersAndTheOutcome) {
  EXPECT_EQ(effect_sentence("routeopd", "fixed_mid", 1.1, {.mean = -0.006, .low = -0.013, .high = 0.001}),
            "The paper has routeopd above fixed_mid by 1.10; here the difference is -0.60 [-1.30, +0.10]: "
            "not shown.");
  EXPECT_EQ(effect_sentence("a", "b", -0.28, {.mean = 0.02, .low = 0.01, .high = 0.03}),
            "The paper has a below b by 0.28; here the difference is +2.00 [+1.00, +3.00]: the opposite.");
}

TEST(Effects, LevelsAreJudgedByTheBestEvidenceThereIs) {
  Level first{.name = "a", .paper = 90, .here = 70, .interval = {}};
  Level second{.name = "b", .paper = 30, .here = 60, .interval = {}};
  EXPECT_EQ(level_sentence("x", first, second, 0),
            "The paper has higher x for a than for b (90 against 30); here 70 against 60: the same order (no "
            "interval).");
  EXPECT_EQ(level_sentence("x", second, first, 0),
            "The paper has lower x for b than for a (30 against 90); here 60 against 70: the same order (no "
            "interval).");
  EXPECT_EQ(level_sentence("x", first, second, 0, {.difference = {}, .per_seed = {1.0, -1.0, 2.0}}),
            "The paper has higher x for a than for b (90 against 30); here 70 against 60: the same order (in "
            "2 of 3 seeds "
            "as in the paper).");
  first.interval = grade::Interval{70, 55, 75};
  second.interval = grade::Interval{60, 50, 65};
  EXPECT_EQ(level_sentence("x", first, second, 0),
            "The paper has higher x for a than for b (90 against 30); here 70 [55, 75] against 60 [50, 65]: "
            "the intervals "
            "overlap, not shown.");
  first.interval->low = 66;
  EXPECT_TRUE(level_sentence("x", first, second, 0).ends_with(": shown."));
  std::swap(first.paper, second.paper);
  EXPECT_TRUE(level_sentence("x", first, second, 0).ends_with(": the opposite."));
  // A paired difference counts before intervals of the two.
  EXPECT_EQ(
      level_sentence("x", first, second, 1, {.difference = grade::Interval{10, -1, 20}, .per_seed = {}}),
      "The paper has lower x for a than for b (30.0 against 90.0); here 70.0 [66.0, 75.0] against 60.0 "
      "[50.0, 65.0], a "
      "difference of +10.0 [-1.0, +20.0]: not shown.");
  const Level small{.name = "a", .paper = 1e-4, .here = 1.23456e-7, .interval = {}},
      large{.name = "b", .paper = 0.25, .here = 2e-7, .interval = {}};
  EXPECT_EQ(level_sentence("x", small, large, kSignificant),
            "The paper has lower x for a than for b (0.0001 against 0.25); here 1.23e-07 against 2e-07: the "
            "same order (no "
            "interval).");
}

}  // namespace
}  // namespace routeopd::study
