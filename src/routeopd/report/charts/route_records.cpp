// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/charts/route_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "routeopd/report/charts/palette.h"
#include "routeopd/report/charts/spec.h"
#include "routeopd/report/tolerant_files.h"

namespace routeopd::report {
namespace {

constexpr std::size_t kMostRoutes = 1500;  // more would hide each other and make the page heavy

struct Stratum {
  double from;
  std::string_view name, color, shape;
};

// The paper's bins of concentration.
constexpr std::array<Stratum, 4> kStrata = {{{0, "c < 0.25", "sky", "circle"},
                                             {0.25, "0.25 to 0.5", "amber", "triangle-up"},
                                             {0.5, "0.5 to 0.75", "vermillion", "square"},
                                             {0.75, "c ≥ 0.75", "ink", "diamond"}}};
constexpr Stratum kUnknown = {0, "c unknown", "grey", "cross"};

}  // namespace

Block route_records_figure(const std::vector<RoutePoint>& routes, const std::string& of) {
  Block block = titled("route-records", "Target and achieved change, route by route");
  if (routes.empty()) {
    block.missing.emplace_back("No route records: routes.jsonl of a probe directory holds them.");
    return block;
  }
  const std::size_t stride = (routes.size() + kMostRoutes - 1) / kMostRoutes;
  Json rows = Json::array();
  std::vector<double> asked, came;
  for (std::size_t i = 0; i < routes.size(); i += stride) {
    const RoutePoint& route = routes[i];
    if (!std::isfinite(route.target) || !std::isfinite(route.achieved)) continue;
    const Stratum* stratum = &kUnknown;
    for (const Stratum& each : kStrata) {
      if (route.concentration && *route.concentration >= each.from) stratum = &each;
    }
    rows.push_back({{"target", route.target}, {"achieved", route.achieved}, {"stratum", stratum->name}});
    asked.push_back(route.target);
    came.push_back(route.achieved);
  }
  block.words = fmt::format(
      "{}: the change of a pair's log-odds that was asked for against the one that came{}; on the line the "
      "target is met. "
      "Colour and shape are the concentration c of the teacher's demand.",
      of,
      stride > 1 ? fmt::format(", one of every {} of {} routes", stride, routes.size())
                 : fmt::format(", {} routes", rows.size()));
  block.table = table_of_rows(rows, {{"target", "target, log-odds", 4},
                                     {"achieved", "achieved, log-odds", 4},
                                     {"stratum", "concentration", 0}});
  const Extent line = extent_of(asked, 0.02);
  Json names = Json::array(), colors = Json::array(), shapes = Json::array();
  const auto add = [&](const Stratum& stratum) {
    names.push_back(stratum.name);
    colors.push_back(chart_color(stratum.color));
    shapes.push_back(stratum.shape);
  };
  for (const Stratum& stratum : kStrata) add(stratum);
  if (std::any_of(rows.begin(), rows.end(), [](const Json& row) { return row["stratum"] == kUnknown.name; }))
    add(kUnknown);
  const Json x = quantity("target", "target change of log-odds",
                          {{"scale", {{"zero", false}}}, {"axis", {{"tickCount", 6}}}});
  const Json y = quantity("achieved", "achieved change of log-odds");
  block.chart = chart_of(block.title,
                         "Scatter plot of the achieved change of log-odds against the target, a point a "
                         "route, with the line of equality.",
                         rows);
  block.chart["width"] = 460;
  block.chart["height"] = 320;
  block.chart["layer"] = Json::array(
      {{{"data",
         {{"values",
           {{{"target", line.low}, {"achieved", line.low}},
            {{"target", line.high}, {"achieved", line.high}}}}}},
        {"mark",
         {{"type", "line"}, {"color", chart_color("faint")}, {"strokeWidth", 1}, {"strokeDash", {5, 3}}}},
        {"encoding", {{"x", x}, {"y", y}}}},
       {{"mark", {{"type", "point"}, {"filled", false}, {"size", 22}, {"opacity", 0.7}, {"strokeWidth", 1}}},
        {"encoding",
         {{"x", x},
          {"y", y},
          {"color",
           category("stratum", "",
                    {{"scale", {{"domain", names}, {"range", colors}}}, {"legend", {{"title", nullptr}}}})},
          {"shape", category("stratum", "",
                             {{"scale", {{"domain", names}, {"range", shapes}}},
                              {"legend", {{"title", nullptr}}}})}}}}});
  return block;
}

Block route_records_of(const ProbeFiles& probe, const std::string& name, const std::string& intervention) {
  std::map<std::int64_t, double> concentrations;
  for (const Json& state : probe.states) {
    const auto number = whole_at(state, "state");
    const auto concentration = number_at(state, {"concentration"});
    if (number && concentration) concentrations[*number] = *concentration;
  }
  std::vector<RoutePoint> points;
  for (const Json& route : probe.routes) {
    const auto target = number_at(route, {"target"}), achieved = number_at(route, {"achieved"});
    const auto state = whole_at(route, "state");
    if (text_at(route, "name") != name || text_at(route, "intervention") != intervention || !target ||
        !achieved)
      continue;
    const auto known = state ? concentrations.find(*state) : concentrations.end();
    points.push_back(
        {*target, *achieved, known != concentrations.end() ? std::optional(known->second) : std::nullopt});
  }
  std::string how = intervention;
  std::replace(how.begin(), how.end(), '_', ' ');
  return route_records_figure(points, fmt::format("{}, {}", shown_series(name), how));
}

}  // namespace routeopd::report
