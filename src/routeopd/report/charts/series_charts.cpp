// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/charts/series_charts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "routeopd/report/charts/palette.h"
#include "routeopd/report/charts/spec.h"

namespace routeopd::report {
namespace {

// Values of several seeds at one place of a line.
struct Spread {
  double sum = 0, low = HUGE_VAL, high = -HUGE_VAL;
  int count = 0;
};

std::size_t place_in(std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  names.push_back(name);
  return names.size() - 1;
}

}  // namespace

void draw_curves(const std::vector<CurvePoint>& points, const std::string& description, Block& block) {
  std::vector<std::string> names, quantities;
  std::map<std::tuple<std::size_t, std::size_t, std::int64_t>, Spread> spreads;  // by quantity, series, step
  for (const CurvePoint& point : points) {
    if (!std::isfinite(point.value)) continue;
    const std::size_t quantity = place_in(quantities, point.quantity), name = place_in(names, point.name);
    Spread& spread = spreads[{quantity, name, point.step}];
    spread.sum += point.value;
    spread.low = std::min(spread.low, point.value);
    spread.high = std::max(spread.high, point.value);
    ++spread.count;
  }
  std::map<std::size_t, Extent> extents;  // of each quantity
  for (const auto& [at, spread] : spreads) {
    Extent& extent = extents.try_emplace(std::get<0>(at), Extent{spread.low, spread.high}).first->second;
    extent = {std::min(extent.low, spread.low), std::max(extent.high, spread.high)};
  }
  Json rows = Json::array();
  bool several = false, flat = false;
  std::map<std::pair<std::size_t, std::size_t>, int> lengths;
  for (const auto& [at, spread] : spreads) {
    const auto& [quantity, name, step] = at;
    ++lengths[{quantity, name}];
    several = several || spread.count > 1;
    const Extent& extent = extents.at(quantity);
    const bool same = extent.low == extent.high;
    const double margin = same ? std::max(1e-3, 0.1 * std::abs(extent.high)) : 0;
    flat = flat || same;
    rows.push_back({{"series", shown_series(names[name])},
                    {"quantity", quantities[quantity]},
                    {"step", step},
                    {"value", spread.sum / spread.count},
                    {"low", spread.low},
                    {"high", spread.high},
                    {"seeds", spread.count},
                    {"floor", extent.low - margin},
                    {"ceiling", extent.high + margin}});
  }
  std::vector<DataColumn> columns = {
      {"quantity", "quantity", 0}, {"series", "run", 0}, {"step", "step", 0}, {"value", "value", 4}};
  if (several) columns.insert(columns.end(), {{"low", "low", 4}, {"high", "high", 4}, {"seeds", "seeds", 0}});
  block.table = table_of_rows(rows, columns);

  int longest = 0;
  for (const auto& [line, length] : lengths) longest = std::max(longest, length);
  const SeriesScales scales = scales_of_series(names);
  const Json legend = names.size() > 1 ? Json{{"title", nullptr}, {"symbolOpacity", 1}} : Json();
  const Json x = quantity("step", "step", {{"axis", {{"format", "d"}, {"tickCount", 5}}}});
  const Json y = quantity("value", "", {{"scale", {{"zero", false}}}, {"axis", {{"tickCount", 5}}}});
  Json low = y;
  low["field"] = "low";
  const Json color = category("series", "", {{"scale", scales.color}, {"legend", legend}});
  Json layers = Json::array();
  // A quantity that never changes has an axis of one value, whose label would be rounded away: an invisible
  // rule makes room.
  if (flat) {
    Json floor = y;
    floor["field"] = "floor";
    layers.push_back({{"mark", {{"type", "rule"}, {"opacity", 0}}},
                      {"encoding", {{"x", x}, {"y", floor}, {"y2", {{"field", "ceiling"}}}}}});
  }
  if (several)
    layers.push_back({{"mark", {{"type", "area"}, {"opacity", 0.15}}},
                      {"encoding", {{"x", x}, {"y", low}, {"y2", {{"field", "high"}}}, {"color", color}}}});
  layers.push_back(
      {{"mark", {{"type", "line"}}},
       {"encoding",
        {{"x", x},
         {"y", y},
         {"color", color},
         {"strokeDash", category("series", "", {{"scale", scales.dash}, {"legend", legend}})}}}});
  // Markers where there is room for them; a single step is seen by its marker alone.
  if (longest <= 16)
    layers.push_back({{"mark", {{"type", "point"}, {"size", 30}}},
                      {"encoding",
                       {{"x", x},
                        {"y", y},
                        {"color", color},
                        {"shape", category("series", "", {{"scale", scales.shape}, {"legend", legend}})}}}});
  block.chart = chart_of(block.title, description, rows);
  block.chart["facet"] = {{"field", "quantity"},
                          {"type", "nominal"},
                          {"sort", quantities},
                          {"header", {{"title", nullptr}, {"labelAnchor", "start"}}}};
  block.chart["columns"] = 2;
  block.chart["spec"] = {{"width", 240}, {"height", 150}, {"layer", layers}};
  block.chart["resolve"] = {{"scale", {{"y", "independent"}}}, {"axis", {{"x", "independent"}}}};
}

void draw_ranges(const std::vector<RangeRow>& ranges, const RangeWords& words, Block& block) {
  Json rows = Json::array(), groups = Json::array(), names = Json::array();
  bool inner = false;
  for (const RangeRow& range : ranges) {
    const std::string name = shown_series(range.name);
    if (std::find(groups.begin(), groups.end(), Json(range.group)) == groups.end())
      groups.push_back(range.group);
    if (std::find(names.begin(), names.end(), Json(name)) == names.end()) names.push_back(name);
    inner = inner || range.inner_low;
    rows.push_back({{"group", range.group},
                    {"name", name},
                    {"middle", finite(range.middle)},
                    {"low", finite(range.low)},
                    {"high", finite(range.high)},
                    {"inner_low", finite(range.inner_low)},
                    {"inner_high", finite(range.inner_high)}});
  }
  std::vector<DataColumn> columns = {{"group", "", 0},
                                     {"name", "", 0},
                                     {"middle", words.middle, words.digits},
                                     {"low", words.low, words.digits}};
  if (inner)
    columns.insert(columns.end(), {{"inner_low", words.inner_low, words.digits},
                                   {"inner_high", words.inner_high, words.digits}});
  columns.push_back({"high", words.high, words.digits});
  block.table = table_of_rows(rows, columns);

  const Json y =
      category("name", "", {{"sort", names}, {"axis", {{"grid", true}, {"tickSize", 0}, {"domain", false}}}});
  const auto x = [&](const char* field) {
    return quantity(field, words.axis, {{"scale", {{"zero", false}}}});
  };
  const std::string blue = chart_color("blue");
  Json layers = Json::array();
  layers.push_back({{"mark", {{"type", "rule"}, {"strokeWidth", 2}, {"color", blue}}},
                    {"encoding", {{"x", x("low")}, {"x2", {{"field", "high"}}}, {"y", y}}}});
  if (inner)
    layers.push_back({{"mark", {{"type", "rule"}, {"strokeWidth", 8}, {"color", blue}, {"opacity", 0.55}}},
                      {"encoding", {{"x", x("inner_low")}, {"x2", {{"field", "inner_high"}}}, {"y", y}}}});
  layers.push_back({{"mark", {{"type", "point"}, {"size", 55}, {"color", inner ? chart_color("ink") : blue}}},
                    {"encoding", {{"x", x("middle")}, {"y", y}}}});
  block.chart = chart_of(block.title, words.description, rows);
  add_row_panels(block.chart, "group", groups, std::move(layers));
}

}  // namespace routeopd::report
