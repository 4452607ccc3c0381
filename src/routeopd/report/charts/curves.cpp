// Small pictures over steps, one a quantity, one line a series: of a study's arms and of runs.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "routeopd/report/charts/curves.h"
#include "routeopd/report/charts/palette.h"
#include "routeopd/report/charts/spec.h"
#include "routeopd/report/charts/study_charts.h"

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

void draw_curves(const std::vector<DynamicsPoint>& points, const std::string& description, Block& block) {
  std::vector<std::string> names, quantities;
  std::map<std::tuple<std::size_t, std::size_t, std::int64_t>, Spread> spreads;  // by quantity, series, step
  for (const DynamicsPoint& point : points) {
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
  // A quantity that never changes has an axis of one value, whose label would be rounded away: room is made unseen.
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

Block dynamics_figure(const std::vector<DynamicsPoint>& points) {
  Block block = titled("dynamics", "Training dynamics");
  if (points.empty()) {
    block.missing.emplace_back("No run was measured along its way: the part dynamics does it.");
    return block;
  }
  block.words =
      "Accuracy, mismatch mass on the starting student's states, and where an update from each checkpoint "
      "goes. Lines are means "
      "over the seeds that were looked at on the way (a study follows its first); a band spans them where "
      "there are several.";
  draw_curves(
      points,
      "Small line charts over training steps: accuracy, mismatch mass, fidelity and leakage, a line an arm.",
      block);
  return block;
}

}  // namespace routeopd::report
