// Specifications of figures: structure, data, words, colours, labels.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "report/figure_testing.h"
#include "routeopd/report/arms.h"
#include "routeopd/report/charts/eval_charts.h"
#include "routeopd/report/charts/labels.h"
#include "routeopd/report/charts/palette.h"
#include "routeopd/report/charts/probe_charts.h"
#include "routeopd/report/charts/route_records.h"
#include "routeopd/report/charts/run_charts.h"
#include "routeopd/report/charts/spec.h"
#include "routeopd/report/charts/state_pictures.h"
#include "routeopd/routing/options.h"

namespace routeopd::report {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Every block of the figure functions without data.
std::vector<Block> empty_figures() {
  return {composition_figure({}),   route_records_figure({}, ""), scalar_credit_figure(Json()),
          operator_figure(Json()),  run_curves_figure({}),        run_time_figure({}),
          eval_accuracy_figure({}), eval_lengths_figure({}),      probe_distributions_figure({}),
          probe_strata_figure({})};
}

Json example_state() {
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
  return {composition_figure({{"routeopd", "correct", 60}, {"routeopd", "reasoning", 40}}),
          route_records_figure({{0.3, 0.2, 0.8}}, "RouteOPD"), scalar_credit_figure(example_state()),
          operator_figure(example_state())};
}

TEST(Charts, SayWhatIsMissingWithoutData) {
  expect_missing(empty_figures());
}

TEST(Charts, HaveTitleDescriptionDataAndTable) {
  expect_whole(full_figures());
}

TEST(Charts, ScalarCreditShowsEveryIdAndTheRest) {
  const Block block = scalar_credit_figure(example_state());
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
  Json state = example_state();
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
  const Block block = operator_figure(example_state());
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
      Json state = example_state();
      state[key] = value;
      scalar_credit_figure(state);
      operator_figure(state);
    }
  }
  for (const char* key : {"id", "text", "p_student", "q_minus", "potential"}) {
    Json state = example_state();
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

Rgb rgb_of(const std::string& css_color) {
  const unsigned long value = std::stoul(css_color.substr(1), nullptr, 16);
  const auto channel = [&](unsigned shift) { return static_cast<std::uint8_t>((value >> shift) & 0xFFU); };
  return {channel(16), channel(8), channel(0)};
}

// A segment is seen on both grounds by its fill or by an outline in ink, which contrasts with both; so is its
// symbol in the legend.
TEST(Palette, SegmentsOfBarsAreBoundedOnBothGrounds) {
  const ChartColor &ground = kChartColors[0], &ink = kChartColors[1];
  ASSERT_EQ(ink.name, "ink");
  const auto expect_seen = [&](const Json& mark, const Json& color, const std::string& fill, Rgb light,
                               Rgb dark) {
    const bool outline = mark.value("stroke", "") == chart_color("ink") && mark.value("strokeWidth", 0.0) > 0;
    const Json& legend = color["legend"];
    const bool symbol = legend.value("symbolStrokeColor", "") == chart_color("ink") &&
                        legend.value("symbolStrokeWidth", 0.0) > 0;
    EXPECT_TRUE((outline && symbol) || contrast(light, ground.light) >= 3) << fill;
    EXPECT_TRUE((outline && symbol) || contrast(dark, ground.dark) >= 3) << fill;
  };
  std::vector<LabelShare> shares;
  for (const char* label :
       {"correct", "reasoning", "arithmetic", "wrong", "premature_stop", "format", "unjudged"})
    shares.push_back({"routeopd", label, 14});
  const Block composition = composition_figure(shares);
  const Json& bars = composition.chart["layer"][0];
  const Json& scale = bars["encoding"]["color"]["scale"];
  ASSERT_EQ(scale["range"].size(), shares.size());
  for (std::size_t i = 0; i < scale["range"].size(); ++i) {
    const auto fill = scale["range"][i].get<std::string>();
    const Rgb color = rgb_of(fill);  // the same on both grounds
    expect_seen(bars["mark"], bars["encoding"]["color"], fill, color, color);
    for (const Json& row : rows_of(composition)) {
      if (row["label"] == scale["domain"][i]) {
        EXPECT_GE(contrast(color, rgb_of(row["ink"].get<std::string>())), 4.5) << fill;  // WCAG 2, words
      }
    }
  }

  RunFiles run;
  run.shown = "run";
  run.metrics.emplace_back().step = 1;
  run.metrics.back().time = {{"rollout", 1}, {"score", 1}, {"route", 1}, {"learn", 1},
                             {"save", 1},    {"eval", 1},  {"total", 7}};
  const Block time = run_time_figure({run});
  const Json& spec = time.chart["spec"];
  const Json& stages = spec["encoding"]["color"]["scale"]["range"];
  ASSERT_EQ(stages.size(), 7U);
  for (const Json& stage : stages) {
    const auto fill = stage.get<std::string>();
    const auto* const named = std::find_if(kChartColors.begin(), kChartColors.end(),
                                           [&](const ChartColor& each) { return css(each.light) == fill; });
    ASSERT_NE(named, kChartColors.end()) << fill;
    expect_seen(spec["mark"], spec["encoding"]["color"], fill, named->light, named->dark);
    // The outline of many bars is a hair; there the fill alone must do.
    EXPECT_GE(contrast(named->light, ground.light), 3) << fill;
    EXPECT_GE(contrast(named->dark, ground.dark), 3) << fill;
  }
}

TEST(Charts, OutlinesDoNotCoverNarrowBars) {
  RunFiles run;
  run.shown = "run";
  for (int step = 1; step <= 1000; ++step) {
    run.metrics.emplace_back().step = step;
    run.metrics.back().time = {{"rollout", 1}, {"total", 1}};
  }
  const Json spec = run_time_figure({run}).chart["spec"];
  EXPECT_LE(spec["mark"]["strokeWidth"].get<double>(), 0.1 * 480 / 250);
  run.metrics.resize(10);
  EXPECT_EQ(run_time_figure({run}).chart["spec"]["mark"]["strokeWidth"], 0.5);
}

bool all_differ(const Json& list) {
  for (std::size_t i = 0; i < list.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (list[i] == list[j]) return false;
  return true;
}

// What lines and markers show of series.
bool look_different(const SeriesScales& scales) {
  Json lines = Json::array(), markers = Json::array();
  for (std::size_t i = 0; i < scales.color["range"].size(); ++i) {
    lines.push_back(Json::array({scales.color["range"][i], scales.dash["range"][i]}));
    markers.push_back(Json::array({scales.color["range"][i], scales.shape["range"][i]}));
  }
  return all_differ(lines) && all_differ(markers);
}

// An arm is one line of the list: its preset exists, and no preset is without a line.
TEST(Arms, AreTheObjectivesArms) {
  const std::vector<std::string> presets = routing::arm_names();
  for (const Arm& arm : kArms) {
    EXPECT_THAT(presets, Contains(std::string(arm.preset()))) << arm.name;
    Json settings = {{"arm", arm.preset()}};
    if (!arm.crossing.setting.empty()) settings[std::string(arm.crossing.setting)] = arm.crossing.value;
    EXPECT_NO_THROW(routing::objective_from(settings)) << arm.name;
    EXPECT_EQ(find_arm(arm.name), &arm) << "named twice";
    EXPECT_EQ(arm.style.color.empty(), arm.name.find('-') != std::string_view::npos) << arm.name;
  }
  for (const std::string& preset : presets) {
    // teacher_deficit is fixed_mid under its name as a destination.
    if (preset != "teacher_deficit") {
      EXPECT_NE(find_arm(preset), nullptr) << preset;
    }
  }
}

std::vector<std::string> main_eight() {
  std::vector<std::string> names;
  for (const Arm& arm : kArms)
    if (arm.main) names.emplace_back(arm.name);
  return names;
}

TEST(Palette, TellsMainArmsApartWithoutColour) {
  const SeriesScales scales = scales_of_series(main_eight());
  EXPECT_TRUE(all_differ(scales.color["range"]));
  EXPECT_TRUE(all_differ(scales.shape["range"]));
  EXPECT_TRUE(all_differ(scales.dash["range"]));
  EXPECT_EQ(scales.color["domain"].size(), 8U);
  EXPECT_EQ(scales.color["domain"][0], "sampled-RKL");
}

TEST(Palette, TellsControlsApart) {
  std::vector<std::string> names = main_eight();
  for (const char* name : {"uniform_deficit", "student_proportional", "random_background", "rank_matched",
                           "rank_matched_neutral", "source_only", "destination_only", "no_mass",
                           "independent_clipping", "fixed_low", "fixed_high", "reversed", "sft"})
    names.emplace_back(name);
  EXPECT_TRUE(look_different(scales_of_series(names)));
}

TEST(Palette, SeedsOfOneArmDiffer) {
  const SeriesScales scales =
      scales_of_series({"routeopd-seed42", "routeopd-seed43", "my-run", "routeopd", "routeopd-k64"});
  EXPECT_TRUE(all_differ(scales.color["range"]));
  EXPECT_TRUE(all_differ(scales.shape["range"]));
  EXPECT_TRUE(all_differ(scales.dash["range"]));
  EXPECT_EQ(scales.color["range"][3], chart_color("blue"));  // the arm keeps its own
  EXPECT_EQ(scales_of_series({"routeopd-seed42"}).color["range"][0], chart_color("blue"));
}

TEST(Palette, ContinuesWhereColoursEnd) {
  std::vector<std::string> names = main_eight();
  while (names.size() < 50) names.push_back("run" + std::to_string(names.size()));
  EXPECT_TRUE(look_different(scales_of_series(names)));
  names.resize(500, "more");
  EXPECT_EQ(scales_of_series(names).color["range"].size(), 500U);
  // A variant stays with its arm's colour then.
  names = main_eight();
  names.emplace_back("routeopd-k64");
  const SeriesScales scales = scales_of_series(names);
  EXPECT_EQ(scales.color["range"][8], chart_color("blue"));
  EXPECT_TRUE(look_different(scales));
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

// The corners of a label, as place_labels() takes letters to be.
struct Corners {
  double left, top, right, bottom;
};
Corners corners_of(const LabelledPoint& point, const LabelPlace& place) {
  const double wide = 0.58 * 11 * static_cast<double>(point.label.size()), tall = 1.15 * 11;
  const double left = point.x + place.dx -
                      (place.align == "left"    ? 0
                       : place.align == "right" ? wide
                                                : wide / 2);
  return {left, point.y + place.dy - tall / 2, left + wide, point.y + place.dy + tall / 2};
}
bool meet(const Corners& a, const Corners& b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

// Fourteen points within a square of 60 pixels, closer than labels are wide: lines lead to most of them.
TEST(Labels, OfACrowdDoNotMeetEachOtherOrThePoints) {
  std::vector<LabelledPoint> points;
  for (int i = 0; i < 14; ++i)
    points.push_back(
        {220.0 + (i * 37) % 60, 150.0 + (i * 23) % 60, 6, "variant number " + std::to_string(i)});
  const std::vector<LabelPlace> places = place_labels(points, 480, 360);
  std::size_t led = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Corners own = corners_of(points[i], places[i]);
    EXPECT_TRUE(own.left >= 0 && own.right <= 480 && own.top >= 0 && own.bottom <= 360) << i;
    for (std::size_t j = 0; j < points.size(); ++j) {
      EXPECT_FALSE(j != i && meet(own, corners_of(points[j], places[j]))) << i << " " << j;
      const Corners mark{points[j].x - 6, points[j].y - 6, points[j].x + 6, points[j].y + 6};
      EXPECT_FALSE(meet(own, mark)) << i << " " << j;
    }
    led += places[i].lead_x != 0 || places[i].lead_y != 0 ? 1 : 0;
  }
  EXPECT_GT(led, 4U);
  // Alone, a label stands beside its point, without a line.
  const LabelPlace alone = place_labels(std::vector<LabelledPoint>{points[0]}, 480, 360)[0];
  EXPECT_EQ(alone.align, "left");
  EXPECT_EQ(alone.lead_x, 0);
}

TEST(Labels, ALineEndsAtItsLabelInTheUnitsOfThePlot) {
  const Plot plot{.x = {0, 10}, .y = {-1, 1}, .width = 100, .height = 200};
  Json row = Json::object();
  put_place({.dx = 30, .dy = -40, .align = "left", .lead_x = 28, .lead_y = -40}, plot, 5, 0, row);
  EXPECT_NEAR(row["lead_x"].get<double>(), 7.8, 1e-12);
  EXPECT_NEAR(row["lead_y"].get<double>(), 0.4, 1e-12);
  EXPECT_EQ(plot.across(5), 50);
  EXPECT_EQ(plot.down(0.4), 60);
}

TEST(Labels, ShortTextIsVisibleAndCut) {
  EXPECT_EQ(short_text("a\nb", 10), "a\\nb");
  EXPECT_EQ(short_text("äöüäöü", 4), "äöü…");
  EXPECT_EQ(short_text("äöüä", 4), "äöüä");
  EXPECT_EQ(end_of_text("äöüäöü", 4), "…äöü");
  EXPECT_EQ(end_of_text("äöüä", 4), "äöüä");
}

}  // namespace
}  // namespace routeopd::report
