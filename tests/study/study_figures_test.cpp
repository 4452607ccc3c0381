// Specifications of the study's figures: structure, data, words.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_figures.h"

#include <gtest/gtest.h>

#include "report/figure_testing.h"
#include "routeopd/study/component_contrasts.h"
#include "routeopd/study/cost_tradeoff.h"
#include "routeopd/study/main_contrasts.h"
#include "routeopd/study/phase_portrait.h"
#include "routeopd/study/tuning_figure.h"

namespace routeopd::study {
namespace {

using report::rows_of;

// Every block of the figure functions without data.
std::vector<Block> empty_figures() {
  return {cost_tradeoff_figure({}), component_contrasts_figure({}),           phase_portrait_figure({}, {}),
          dynamics_figure({}),      main_contrasts_figure({}, "sampled_rkl"), tuning_figure({})};
}

// Two arms at three rates; the second has one seed and was not probed.
StudyResults tuned() {
  StudyResults study;
  study.tuning = Tuning{.rates = {{"routeopd", 1e-4, {0.5, 0.6}, 0.2, 0.01, 0.05, false},
                                  {"routeopd", 5e-4, {0.7, 0.75}, 0.8, 0.3, 0.25, true},
                                  {"routeopd", 1e-3, {0.6, 0.7}, 1.4, 0.7, 0.5, false},
                                  {"sampled_rkl", 1e-4, {0.55}, {}, {}, {}, true},
                                  {"sampled_rkl", 5e-4, {0.5}, {}, {}, {}, false},
                                  {"sampled_rkl", 1e-3, {}, {}, {}, {}, false}},
                        .shared_lr = 1e-4,
                        .samples = 8,
                        .problems = 64};
  return study;
}

std::vector<Block> full_figures() {
  return {cost_tradeoff_figure({{"routeopd", {3, 2.5, 3.5}, {60, {}, {}}, 2e9, 16},
                                {"sampled_rkl", {0, {}, {}}, {50, {}, {}}, 1e9, 0}}),
          component_contrasts_figure({{"Destination", "rank_matched", {-2, -3, -1}, -0.7}}),
          phase_portrait_figure({{"routeopd", 80, 20, 64.4}}, {{0, 70, 30}, {5, 75, 25}}),
          dynamics_figure({{"routeopd", 0, "Mismatch mass", 0.2},
                           {"routeopd", 5, "Mismatch mass", 0.1},
                           {"routeopd", 5, "Mismatch mass", 0.3}}),
          main_contrasts_figure({{"", "routeopd", {2, 1, 3}, 2.19}}, "sampled_rkl"),
          tuning_figure(tuned())};
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

TEST(StudyFigures, TuningHasMeansSpreadsAndTheChosenRates) {
  const Block block = tuning_figure(tuned());
  const Json& rows = rows_of(block);
  ASSERT_EQ(rows.size(), 5U) << "a rate without a seed is not drawn";
  EXPECT_DOUBLE_EQ(rows[0]["accuracy"].get<double>(), 55);
  EXPECT_DOUBLE_EQ(rows[0]["low"].get<double>(), 50);
  EXPECT_DOUBLE_EQ(rows[0]["high"].get<double>(), 60);
  EXPECT_DOUBLE_EQ(rows[1]["completion"].get<double>(), 80);
  EXPECT_DOUBLE_EQ(rows[1]["overshoot"].get<double>(), 30);
  EXPECT_EQ(rows[1]["chosen"], "yes");
  EXPECT_EQ(rows[2]["chosen"], "");
  EXPECT_TRUE(rows[3]["completion"].is_null());
  const Json& panels = block.chart["hconcat"];
  ASSERT_EQ(panels.size(), 2U);
  EXPECT_EQ(panels[0]["layer"][0]["encoding"]["x"]["scale"]["type"], "log");
  EXPECT_EQ(panels[1]["vconcat"].size(), 2U);
  EXPECT_NE(block.words.find("Avg@8 on 64 validation problems"), std::string::npos);
  StudyResults bare = tuned();
  for (TunedRate& rate : bare.tuning->rates) rate.completion = rate.overshoot = std::nullopt;
  EXPECT_EQ(tuning_figure(bare).chart["hconcat"].size(), 1U) << "without a probe there is one panel";
}

TEST(StudyFigures, PhasePortraitHasSpecificityAndAccuracyInTheLabel) {
  const Block block = full_figures()[2];
  const Json& row = rows_of(block).front();
  EXPECT_EQ(row["specificity"], 80);
  EXPECT_EQ(row["label"], "RouteOPD 64.4");
}

}  // namespace
}  // namespace routeopd::study
