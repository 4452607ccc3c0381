// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/charts/palette.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "routeopd/base/error.h"
#include "routeopd/report/arms.h"

namespace routeopd::report {
namespace {

const std::array<std::vector<double>, 9> kDashes = {
    {{}, {6, 3}, {2, 2}, {8, 3, 2, 3}, {10, 4}, {4, 2, 1, 2, 1, 2}, {1, 4}, {5, 2, 5, 6}, {3, 7}}};

// Seven colours, eight shapes, nine dashes: no two of these numbers have a divisor in common, so that places
// one after the other come to every combination.
constexpr std::array<std::string_view, 7> kCycle = {"blue",  "vermillion", "green", "purple",
                                                    "amber", "grey",       "sky"};
constexpr std::array<std::string_view, 8> kShapes = {"circle",         "square",        "triangle-up",
                                                     "diamond",        "triangle-down", "cross",
                                                     "triangle-right", "triangle-left"};

// The arm of this name, where it has a style of its own.
const Arm* styled_arm(std::string_view name) {
  const Arm* const arm = find_arm(name);
  return arm != nullptr && !arm->style.color.empty() ? arm : nullptr;
}

// Of "routeopd-k64" and "source_only-one" too.
const Arm* base_of(std::string_view name) {
  return styled_arm(name.substr(0, name.find('-')));
}

SeriesStyle cycle_style(std::size_t place) {
  return {chart_color(kCycle[place % kCycle.size()]), std::string(kShapes[place % kShapes.size()]),
          kDashes[place % kDashes.size()]};
}

bool share_a_part(const SeriesStyle& a, const SeriesStyle& b) {
  return a.color == b.color || a.shape == b.shape || a.dash == b.dash;
}

// As a line or as a marker.
bool look_alike(const SeriesStyle& a, const SeriesStyle& b) {
  return a.color == b.color && (a.shape == b.shape || a.dash == b.dash);
}

template <class Clash>
bool clashes(const SeriesStyle& style, const std::vector<SeriesStyle>& taken, Clash clash) {
  return std::any_of(taken.begin(), taken.end(),
                     [&](const SeriesStyle& other) { return clash(style, other); });
}

// The first of the cycle from this place on that shares nothing with those that are taken. Where there is
// none, one of the series' own colour that does not look like them; then of any colour; then whatever the
// place has.
SeriesStyle free_style(const SeriesStyle& own, std::size_t place, const std::vector<SeriesStyle>& taken) {
  // As many as can look different.
  if (taken.size() >= kCycle.size() * kShapes.size()) return cycle_style(place);
  enum class Wanted { kAllNew, kOwnColor, kAnyColor };
  for (const Wanted wanted : {Wanted::kAllNew, Wanted::kOwnColor, Wanted::kAnyColor}) {
    for (std::size_t i = 0; i < kCycle.size() * kShapes.size() * kDashes.size(); ++i) {
      const SeriesStyle style = cycle_style(place + i);
      if (wanted == Wanted::kOwnColor && style.color != own.color) continue;
      if (!clashes(style, taken, wanted == Wanted::kAllNew ? share_a_part : look_alike)) return style;
    }
  }
  return cycle_style(place);
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
  if (const Arm* const arm = base_of(name))
    return {chart_color(arm->style.color), std::string(arm->style.shape),
            kDashes[static_cast<std::size_t>(arm->style.dash)]};
  return cycle_style(place);
}

std::string shown_series(std::string_view name) {
  if (const Arm* const arm = find_arm(name)) return std::string(arm->label);
  const std::size_t dash = name.find('-');
  const Arm* const base = base_of(name);
  if (base == nullptr || dash == std::string_view::npos) return std::string(name);
  const std::string_view change = name.substr(dash + 1);
  if (change.size() > 1 && (change[0] == 'k' || change[0] == 'm'))
    return fmt::format("{}, {} = {}", base->label, change[0], change.substr(1));
  if (change == "lean") return fmt::format("{}, lean", base->label);
  return std::string(name);
}

SeriesScales scales_of_series(const std::vector<std::string>& names) {
  std::vector<SeriesStyle> styles(names.size()), taken;
  // Arms first, so that nothing before them in the order takes their styles.
  for (const bool arms : {true, false}) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if ((styled_arm(names[i]) != nullptr) != arms) continue;
      const SeriesStyle own = style_of_series(names[i], i);
      const bool stays = arms || (base_of(names[i]) != nullptr && !clashes(own, taken, look_alike));
      styles[i] = stays ? own : free_style(own, i, taken);
      taken.push_back(styles[i]);
    }
  }
  SeriesScales scales;
  Json domain = Json::array(), color = Json::array(), shape = Json::array(), dash = Json::array();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const SeriesStyle& style = styles[i];
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
