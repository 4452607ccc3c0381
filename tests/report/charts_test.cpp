// Specifications of figures: structure, data, words, colours, labels.
//
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cmath>

#include "routeopd/report/charts/directory_charts.h"
#include "routeopd/report/charts/palette.h"
#include "routeopd/report/charts/spec.h"
#include "routeopd/report/charts/state_pictures.h"
#include "routeopd/report/charts/study_charts.h"

namespace routeopd::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Json& rows_of(const Block& block) {
  return block.chart.at("data").at("values");
}

// Every block of the figure functions without data.
std::vector<Block> empty_figures() {
  return {cost_tradeoff_figure({}),       component_contrasts_figure({}),
          phase_portrait_figure({}, {}),  dynamics_figure({}),
          composition_figure({}),         route_records_figure({}, ""),
          scalar_credit_figure(Json()),   operator_figure(Json()),
          run_curves_figure({}),          run_time_figure({}),
          eval_accuracy_figure({}),       eval_lengths_figure({}),
          probe_distributions_figure({}), probe_strata_figure({})};
}

Json example() {
  const auto id = [](int number, const char* text, double p_student, double p_teacher) {
    const double excess = std::max(p_student - p_teacher, 0.0),
                 deficit = std::max(p_teacher - p_student, 0.0);
    return Json{{"id", number},
                {"text", text},
                {"p_student", p_student},
                {"p_teacher", p_teacher},
                {"excess", excess},
                {"deficit", deficit},
                {"q_minus", excess / 0.3},
                {"q_plus", deficit / 0.3},
                {"potential", p_teacher - p_student},
                {"bounded", 0.1},
                {"change_sampled_rkl", -0.01},
                {"change_routeopd", 0.02}};
  };
  return {{"prefix", "2 + 2 ="},
          {"action", {{"id", 5}, {"text", " five"}}},
          {"advantage", -2.5},
          {"mass", 0.3},
          {"concentration", 0.5},
          {"budget", 0.25},
          {"ids", {id(5, " five", 0.5, 0.2), id(4, " four", 0.2, 0.4), id(6, "\n<b>", 0.1, 0.2)}},
          {"rest", {{"change_sampled_rkl", 0.005}, {"change_routeopd", 0.0}}},
          {"pairs", {{{"source", 5}, {"destination", 4}, {"target", 0.25}}}}};
}

std::vector<Block> full_figures() {
  return {cost_tradeoff_figure({{"routeopd", {3, 2.5, 3.5}, {60, {}, {}}, 2e9, 16},
                                {"sampled_rkl", {0, {}, {}}, {50, {}, {}}, 1e9, 0}}),
          component_contrasts_figure({{"Destination", "rank_matched", {-2, -3, -1}, -0.7}}),
          phase_portrait_figure({{"routeopd", 80, 20, 64.4}}, {{0, 70, 30}, {5, 75, 25}}),
          dynamics_figure({{"routeopd", 0, "Mismatch mass", 0.2},
                           {"routeopd", 5, "Mismatch mass", 0.1},
                           {"routeopd", 5, "Mismatch mass", 0.3}}),
          composition_figure({{"routeopd", "correct", 60}, {"routeopd", "reasoning", 40}}),
          route_records_figure({{0.3, 0.2, 0.8}}, "RouteOPD"),
          scalar_credit_figure(example()),
          operator_figure(example())};
}

TEST(Charts, SayWhatIsMissingWithoutData) {
  for (const Block& block : empty_figures()) {
    EXPECT_TRUE(block.chart.is_null()) << block.id;
    EXPECT_EQ(block.missing.size(), 1U) << block.id;
    EXPECT_FALSE(block.table) << block.id;
  }
}

TEST(Charts, HaveTitleDescriptionDataAndTable) {
  for (const Block& block : full_figures()) {
    ASSERT_TRUE(block.chart.is_object()) << block.id;
    EXPECT_EQ(block.chart["title"], block.title);
    EXPECT_GT(block.chart["description"].get<std::string>().size(), 40U) << block.id;
    EXPECT_GT(block.words.size(), 40U) << block.id;
    EXPECT_FALSE(rows_of(block).empty()) << block.id;
    ASSERT_TRUE(block.table) << block.id;
    EXPECT_FALSE(block.table->rows().empty()) << block.id;
    EXPECT_TRUE(block.missing.empty()) << block.id;
    EXPECT_EQ(block.chart.dump().find("\"url\""), std::string::npos) << block.id;  // nothing is fetched
  }
}

TEST(Charts, DynamicsHaveMeanAndBandOverSeeds) {
  const Block block = full_figures()[3];
  const Json& last = rows_of(block).back();
  EXPECT_EQ(last["series"], "RouteOPD");
  EXPECT_EQ(last["step"], 5);
  EXPECT_DOUBLE_EQ(last["value"].get<double>(), 0.2);
  EXPECT_DOUBLE_EQ(last["low"].get<double>(), 0.1);
  EXPECT_DOUBLE_EQ(last["high"].get<double>(), 0.3);
  EXPECT_EQ(last["seeds"], 2);
}

TEST(Charts, DynamicsGiveAFlatLineRoom) {
  const Block block = dynamics_figure({{"routeopd", 0, "Budget", 0.3},
                                       {"routeopd", 5, "Budget", 0.3},
                                       {"routeopd", 0, "Loss", 1},
                                       {"routeopd", 5, "Loss", 2}});
  EXPECT_NEAR(rows_of(block)[0]["floor"].get<double>(), 0.27, 1e-12);
  EXPECT_NEAR(rows_of(block)[0]["ceiling"].get<double>(), 0.33, 1e-12);
  EXPECT_EQ(rows_of(block)[2]["floor"], 1);
  EXPECT_EQ(rows_of(block)[2]["ceiling"], 2);
}

TEST(Charts, PhasePortraitHasSpecificityAndAccuracyInside) {
  const Block block = full_figures()[2];
  const Json& row = rows_of(block).front();
  EXPECT_EQ(row["specificity"], 80);
  EXPECT_EQ(row["inside"], "64.4");
}

TEST(Charts, ScalarCreditShowsEveryIdAndTheRest) {
  const Block block = scalar_credit_figure(example());
  const Json& rows = rows_of(block);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0]["token"], "\" five\" (sampled)");
  EXPECT_NEAR(rows[0]["asked"].get<double>(), -30, 1e-9);
  EXPECT_NEAR(rows[1]["asked"].get<double>(), 20, 1e-9);
  EXPECT_EQ(rows[2]["token"], "\"\\n<b>\"");
  EXPECT_NEAR(rows[3]["sampled"].get<double>(), 0.5, 1e-9);
  EXPECT_THAT(block.words, HasSubstr("advantage -2.50"));
}

TEST(Charts, ScalarCreditGathersWhatIsNotShown) {
  Json state = example();
  Json more = state["ids"][1];
  for (int i = 0; i < 40; ++i) {
    more["id"] = 100 + i;
    state["ids"].push_back(more);
  }
  const Json rows = rows_of(scalar_credit_figure(state));
  ASSERT_EQ(rows.size(), 13U);  // twelve and the rest
  EXPECT_NEAR(rows.back()["asked"].get<double>(), (43 - 12) * 20, 1e-6);
}

TEST(Charts, OperatorDrawsPairsBetweenItsEnds) {
  const Block block = operator_figure(example());
  EXPECT_THAT(block.words, HasSubstr("budget B = 0.250"));
  const Json& layers = block.chart["vconcat"][0]["layer"];
  const Json& arrows = layers[3]["data"]["values"];
  ASSERT_EQ(arrows.size(), 1U);
  EXPECT_EQ(arrows[0]["target"], "+0.25");
  EXPECT_EQ(rows_of(block)[0]["side"], "excess");
  EXPECT_EQ(rows_of(block)[1]["side"], "deficit");
  EXPECT_NEAR(rows_of(block)[0]["share"].get<double>(), 100, 1e-9);
}

TEST(Charts, PicturesTakeBrokenStates) {
  for (const char* key : {"ids", "pairs", "action", "rest", "mass"}) {
    for (const Json& value :
         {Json(), Json(7), Json("x"), Json::array({1, "x", nullptr}), Json{{"id", "x"}}}) {
      Json state = example();
      state[key] = value;
      scalar_credit_figure(state);
      operator_figure(state);
    }
  }
  for (const char* key : {"id", "text", "p_student", "q_minus", "potential"}) {
    Json state = example();
    state["ids"][1][key] = "x";
    EXPECT_LE(scalar_credit_figure(state).table->rows().size(), 4U);
    operator_figure(state);
  }
}

TEST(Charts, RouteRecordsAreThinnedAndSaidToBe) {
  const std::vector<RoutePoint> routes(4000, {0.3, 0.2, 0.1});
  const Block block = route_records_figure(routes, "x");
  EXPECT_EQ(rows_of(block).size(), 1334U);
  EXPECT_THAT(block.words, HasSubstr("one of every 3 of 4000 routes"));
}

TEST(Charts, RouteRecordsKnowTheirStratum) {
  const Block block =
      route_records_figure({{0, 0, 0}, {0, 0, 0.25}, {0, 0, 0.74}, {0, 0, 1}, {NAN, 0, 1}, {0, 0, {}}}, "x");
  std::vector<std::string> strata;
  for (const Json& row : rows_of(block)) strata.push_back(row["stratum"]);
  EXPECT_THAT(strata, ElementsAre("c < 0.25", "0.25 to 0.5", "0.5 to 0.75", "c ≥ 0.75", "c unknown"));
}

TEST(Palette, ContrastsWithBothGrounds) {
  const ChartColor& ground = kChartColors[0];
  for (std::size_t i = 4; i < kChartColors.size(); ++i) {
    EXPECT_GE(contrast(kChartColors[i].light, ground.light), 3) << kChartColors[i].name;  // WCAG 2, graphics
    EXPECT_GE(contrast(kChartColors[i].dark, ground.dark), 3) << kChartColors[i].name;
  }
  EXPECT_GE(contrast(kChartColors[1].light, ground.light), 7);  // words
  EXPECT_GE(contrast(kChartColors[1].dark, ground.dark), 7);
}

TEST(Palette, TellsSeriesApartWithoutColour) {
  const SeriesScales scales =
      scales_of_series({"routeopd", "fixed_mid", "sampled_rkl", "full_rkl", "full_fkl", "union_rkl"});
  const auto all_differ = [](const Json& list) {
    for (std::size_t i = 0; i < list.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (list[i] == list[j]) return false;
    return true;
  };
  EXPECT_TRUE(all_differ(scales.color["range"]));
  EXPECT_TRUE(all_differ(scales.shape["range"]));
  EXPECT_TRUE(all_differ(scales.dash["range"]));
  EXPECT_EQ(scales.color["domain"][0], "RouteOPD");
}

TEST(Palette, NamesVariants) {
  EXPECT_EQ(shown_series("routeopd-k64"), "RouteOPD, k = 64");
  EXPECT_EQ(shown_series("source_only-one"), "source only, weight 1");
  EXPECT_EQ(shown_series("my-run"), "my-run");
  EXPECT_EQ(shown_series("routeopd-seed42"), "routeopd-seed42");
}

TEST(Labels, KeepOffEachOtherAndInside) {
  // Five points on a heap, at the right edge.
  std::vector<LabelledPoint> points;
  for (int i = 0; i < 5; ++i) points.push_back({395, 100.0 + 14 * i, 5, "a label " + std::to_string(i)});
  const std::vector<LabelPlace> places = place_labels(points, 400, 300);
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(places[i].align, "right") << i;  // there is no room on the right
    for (std::size_t j = 0; j < i; ++j) {
      const double apart = std::abs(points[i].y + places[i].dy - points[j].y - places[j].dy);
      EXPECT_GE(apart, 11) << i << " " << j;
    }
  }
}

TEST(Labels, ShortTextIsVisibleAndCut) {
  EXPECT_EQ(short_text("a\nb", 10), "a\\nb");
  EXPECT_EQ(short_text("äöüäöü", 4), "äöü…");
  EXPECT_EQ(short_text("äöüä", 4), "äöüä");
}

}  // namespace
}  // namespace routeopd::report
