// Specifications of the study's figures: structure, data, words.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_figures.h"

#include <gtest/gtest.h>

#include "report/figure_testing.h"
#include "routeopd/study/component_contrasts.h"
#include "routeopd/study/cost_tradeoff.h"
#include "routeopd/study/phase_portrait.h"

namespace routeopd::study {
namespace {

using report::rows_of;

// Every block of the figure functions without data.
std::vector<Block> empty_figures() {
  return {cost_tradeoff_figure({}), component_contrasts_figure({}), phase_portrait_figure({}, {}),
          dynamics_figure({})};
}

std::vector<Block> full_figures() {
  return {cost_tradeoff_figure({{"routeopd", {3, 2.5, 3.5}, {60, {}, {}}, 2e9, 16},
                                {"sampled_rkl", {0, {}, {}}, {50, {}, {}}, 1e9, 0}}),
          component_contrasts_figure({{"Destination", "rank_matched", {-2, -3, -1}, -0.7}}),
          phase_portrait_figure({{"routeopd", 80, 20, 64.4}}, {{0, 70, 30}, {5, 75, 25}}),
          dynamics_figure({{"routeopd", 0, "Mismatch mass", 0.2},
                           {"routeopd", 5, "Mismatch mass", 0.1},
                           {"routeopd", 5, "Mismatch mass", 0.3}})};
}

TEST(StudyFigures, SayWhatIsMissingWithoutData) {
  report::expect_missing(empty_figures());
}

TEST(StudyFigures, HaveTitleDescriptionDataAndTable) {
  report::expect_whole(full_figures());
}

TEST(StudyFigures, TheAreaOfAMarkerIsTheMemory) {
  const Json rows = rows_of(full_figures().front());
  EXPECT_DOUBLE_EQ(rows[0]["area"].get<double>(), 2 * rows[1]["area"].get<double>());
}

TEST(StudyFigures, DynamicsHaveMeanAndBandOverSeeds) {
  const Block block = full_figures()[3];
  const Json& last = rows_of(block).back();
  EXPECT_EQ(last["series"], "RouteOPD");
  EXPECT_EQ(last["step"], 5);
  EXPECT_DOUBLE_EQ(last["value"].get<double>(), 0.2);
  EXPECT_DOUBLE_EQ(last["low"].get<double>(), 0.1);
  EXPECT_DOUBLE_EQ(last["high"].get<double>(), 0.3);
  EXPECT_EQ(last["seeds"], 2);
}

TEST(StudyFigures, DynamicsGiveAFlatLineRoom) {
  const Block block = dynamics_figure({{"routeopd", 0, "Budget", 0.3},
                                       {"routeopd", 5, "Budget", 0.3},
                                       {"routeopd", 0, "Loss", 1},
                                       {"routeopd", 5, "Loss", 2}});
  EXPECT_NEAR(rows_of(block)[0]["floor"].get<double>(), 0.27, 1e-12);
  EXPECT_NEAR(rows_of(block)[0]["ceiling"].get<double>(), 0.33, 1e-12);
  EXPECT_EQ(rows_of(block)[2]["floor"], 1);
  EXPECT_EQ(rows_of(block)[2]["ceiling"], 2);
}

TEST(StudyFigures, PhasePortraitHasSpecificityAndAccuracyInside) {
  const Block block = full_figures()[2];
  const Json& row = rows_of(block).front();
  EXPECT_EQ(row["specificity"], 80);
  EXPECT_EQ(row["inside"], "64.4");
}

}  // namespace
}  // namespace routeopd::study
