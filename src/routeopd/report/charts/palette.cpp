//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/charts/palette.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "routeopd/base/error.h"

namespace routeopd::report {
namespace {

struct NamedSeries {
  std::string_view name, shown, color, shape;
  int dash;  // of kDashes
};

const std::array<std::vector<double>, 6> kDashes = {
    {{}, {6, 3}, {2, 2}, {8, 3, 2, 3}, {10, 4}, {4, 2, 1, 2, 1, 2}}};

// Those that meet in one figure have different colours, and where colours come again other shapes.
constexpr std::array<NamedSeries, 20> kSeries = {{
    {"routeopd", "RouteOPD", "blue", "circle", 0},
    {"fixed_mid", "fixed-mid", "amber", "square", 1},
    {"sampled_rkl", "sampled-RKL", "vermillion", "triangle-up", 2},
    {"full_rkl", "full RKL", "green", "diamond", 3},
    {"full_fkl", "full FKL", "purple", "triangle-down", 4},
    {"union_rkl", "union RKL", "grey", "cross", 5},
    {"union_fkl", "union FKL", "sky", "triangle-right", 3},
    {"exact", "exact coupling", "ink", "triangle-left", 1},
    {"uniform_deficit", "uniform deficit", "sky", "diamond", 1},
    {"student_proportional", "student-proportional", "green", "triangle-left", 2},
    {"random_background", "random background", "purple", "cross", 2},
    {"rank_matched", "rank-matched", "grey", "triangle-right", 3},
    {"source_only", "source only", "sky", "triangle-left", 4},
    {"destination_only", "destination only", "purple", "triangle-right", 5},
    {"no_mass", "no mass weight", "green", "square", 1},
    {"independent_clipping", "independent clipping", "grey", "diamond", 2},
    {"fixed_low", "fixed-low", "amber", "triangle-down", 2},
    {"fixed_high", "fixed-high", "amber", "triangle-up", 3},
    {"reversed", "reversed budget", "purple", "diamond", 4},
    {"sft", "SFT", "grey", "square", 4},
}};

constexpr std::array<std::string_view, 7> kCycle = {"blue",  "vermillion", "green", "purple",
                                                    "amber", "grey",       "sky"};
constexpr std::array<std::string_view, 7> kShapes = {"circle",        "square", "triangle-up",   "diamond",
                                                     "triangle-down", "cross",  "triangle-right"};

const NamedSeries* known(std::string_view name) {
  const auto* const found = std::find_if(kSeries.begin(), kSeries.end(),
                                         [&](const NamedSeries& each) { return each.name == name; });
  return found == kSeries.end() ? nullptr : found;
}

// Of "routeopd-k64" and "source_only-one" too, whose labels say what differs.
const NamedSeries* base_of(std::string_view name) {
  return known(name.substr(0, name.find('-')));
}

}  // namespace

std::string chart_color(std::string_view name) {
  const auto* const found = std::find_if(kChartColors.begin(), kChartColors.end(),
                                         [&](const ChartColor& each) { return each.name == name; });
  ROUTEOPD_INVARIANT(found != kChartColors.end());
  return css(found->light);
}

std::string chart_color_style() {
  std::string light, dark;
  for (const ChartColor& color : kChartColors) {
    if (&color - kChartColors.data() < 4) continue;  // the page's own
    fmt::format_to(std::back_inserter(light), "--{}:{};", color.name, css(color.light));
    fmt::format_to(std::back_inserter(dark), "--{}:{};", color.name, css(color.dark));
  }
  return fmt::format(":root{{{}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{}}}}}\n", light,
                     dark);
}

SeriesStyle style_of_series(std::string_view name, std::size_t place) {
  if (const NamedSeries* const series = base_of(name))
    return {chart_color(series->color), std::string(series->shape),
            kDashes[static_cast<std::size_t>(series->dash)]};
  return {chart_color(kCycle[place % kCycle.size()]), std::string(kShapes[place % kShapes.size()]),
          kDashes[place % kDashes.size()]};
}

std::string shown_series(std::string_view name) {
  if (const NamedSeries* const series = known(name)) return std::string(series->shown);
  const std::size_t dash = name.find('-');
  const NamedSeries* const base = base_of(name);
  if (base == nullptr || dash == std::string_view::npos) return std::string(name);
  const std::string_view change = name.substr(dash + 1);
  if (change == "one") return fmt::format("{}, weight 1", base->shown);
  if (change.size() > 1 && (change[0] == 'k' || change[0] == 'm'))
    return fmt::format("{}, {} = {}", base->shown, change[0], change.substr(1));
  return std::string(name);
}

SeriesScales scales_of_series(const std::vector<std::string>& names) {
  SeriesScales scales;
  Json domain = Json::array(), color = Json::array(), shape = Json::array(), dash = Json::array();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const SeriesStyle style = style_of_series(names[i], i);
    domain.push_back(shown_series(names[i]));
    color.push_back(style.color);
    shape.push_back(style.shape);
    dash.push_back(style.dash.empty() ? Json::array({1, 0}) : Json(style.dash));
  }
  scales.color = {{"domain", domain}, {"range", color}};
  scales.shape = {{"domain", domain}, {"range", shape}};
  scales.dash = {{"domain", domain}, {"range", dash}};
  return scales;
}

}  // namespace routeopd::report
