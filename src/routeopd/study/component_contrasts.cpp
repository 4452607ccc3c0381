// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/component_contrasts.h"

#include <algorithm>
#include <array>

#include "routeopd/report/arms.h"
#include "routeopd/report/charts/palette.h"
#include "routeopd/report/charts/spec.h"

namespace routeopd::study {
namespace {

using report::add_row_panels;
using report::category;
using report::chart_color;
using report::chart_of;
using report::finite;
using report::quantity;
using report::shown_series;
using report::table_of_rows;

// A block of the figure; `paper` is the paper's table that has its arms.
struct Panel {
  report::Component component;
  const char* title;
  const char* paper;
};
constexpr std::array<Panel, 5> kPanels = {{{report::Component::kDestination, "Destination", "destination"},
                                           {report::Component::kUpdateForm, "Update form", "objective"},
                                           {report::Component::kTarget, "Target", "objective"},
                                           {report::Component::kBudget, "Budget", "budget"},
                                           {report::Component::kOurs, "Not in the paper", "objective"}}};

// Controls first, then the main arms among them.
std::vector<std::string> arms_of(report::Component component) {
  std::vector<std::string> names;
  for (const bool main : {false, true}) {
    for (const report::Arm& arm : report::kArms)
      if (arm.component == component && arm.main == main) names.emplace_back(arm.name);
  }
  return names;
}

}  // namespace

Block component_contrasts(const StudyGrades& grades) {
  std::vector<ContrastPoint> points;
  for (const Panel& panel : kPanels) {
    for (const std::string& name : arms_of(panel.component)) {
      const std::optional<Contrast> contrast = grades.contrast(kAblationReference, name);
      if (!contrast) continue;
      const grade::Interval& difference = contrast->difference;
      points.push_back({.block = panel.title,
                        .name = name,
                        .contrast = {100 * difference.mean, 100 * difference.low, 100 * difference.high},
                        .paper = paper_difference(panel.paper, name, kAblationReference, "avg")});
    }
  }
  return component_contrasts_figure(points);
}

Block component_contrasts_figure(const std::vector<ContrastPoint>& points) {
  Block block = titled("component-contrasts", "Matched controls against fixed-mid");
  if (points.empty()) {
    block.missing.emplace_back("No variant can be compared with fixed_mid: the part ablations runs them.");
    return block;
  }
  block.words =
      "Each block varies one family of choices and keeps the rest of the fixed-mid construction, but for "
      "what is "
      "not in the paper: other objectives, and the exact coupling with its adaptive budget. The points are "
      "separate contrasts, no "
      "path from one to the next. Bars are 95 % intervals of the paired difference; a bar that crosses the "
      "line at 0 leaves open whether there is a difference. Open diamonds are the paper's differences.";
  Json rows = Json::array(), order = Json::array(), blocks = Json::array();
  bool papers = false;
  for (const ContrastPoint& point : points) {
    const std::string name = shown_series(point.name);
    if (std::find(order.begin(), order.end(), Json(name)) == order.end()) order.push_back(name);
    if (std::find(blocks.begin(), blocks.end(), Json(point.block)) == blocks.end())
      blocks.push_back(point.block);
    papers = papers || point.paper;
    rows.push_back({{"block", point.block},
                    {"variant", name},
                    {"contrast", finite(point.contrast.value)},
                    {"low", finite(point.contrast.low)},
                    {"high", finite(point.contrast.high)},
                    {"paper", finite(point.paper)},
                    {"kind", "here"},
                    {"paper_kind", "paper"}});
  }
  block.table = table_of_rows(rows, {{"block", "block", 0},
                                     {"variant", "variant", 0},
                                     {"contrast", "difference, points", 2},
                                     {"low", "low", 2},
                                     {"high", "high", 2},
                                     {"paper", "paper", 2}});
  const Json x = quantity("contrast", "Avg@n minus fixed-mid's (points)", {{"scale", {{"nice", true}}}});
  const Json y = category("variant", "",
                          {{"sort", order}, {"axis", {{"grid", true}, {"tickSize", 0}, {"domain", false}}}});
  Json low = x, paper = x;
  low["field"] = "low";
  paper["field"] = "paper";
  const Json color = {{"domain", {"here", "paper"}},
                      {"range", {chart_color("blue"), chart_color("vermillion")}}};
  const Json shape = {{"domain", {"here", "paper"}}, {"range", {"circle", "diamond"}}};
  const Json legend = papers ? Json{{"title", nullptr}} : Json();
  Json layers = Json::array();
  layers.push_back({{"mark", {{"type", "rule"}, {"color", chart_color("ink")}, {"strokeWidth", 1}}},
                    {"encoding", {{"x", {{"datum", 0}}}}}});
  layers.push_back({{"mark", {{"type", "rule"}, {"color", chart_color("blue")}, {"strokeWidth", 2}}},
                    {"encoding", {{"x", low}, {"x2", {{"field", "high"}}}, {"y", y}}}});
  layers.push_back({{"mark", {{"type", "point"}, {"size", 70}}},
                    {"encoding",
                     {{"x", x},
                      {"y", y},
                      {"color", category("kind", "", {{"scale", color}, {"legend", legend}})},
                      {"shape", category("kind", "", {{"scale", shape}, {"legend", legend}})}}}});
  if (papers)
    layers.push_back({{"mark", {{"type", "point"}, {"size", 60}, {"filled", false}, {"strokeWidth", 1.5}}},
                      {"encoding",
                       {{"x", paper},
                        {"y", y},
                        {"color", category("paper_kind", "", {{"scale", color}, {"legend", legend}})},
                        {"shape", category("paper_kind", "", {{"scale", shape}, {"legend", legend}})}}}});
  block.chart = chart_of(block.title,
                         "Points with 95 % intervals: the accuracy of each variant minus that of fixed-mid, "
                         "in percentage points, "
                         "in blocks by what is varied.",
                         rows);
  add_row_panels(block.chart, "block", blocks, std::move(layers));
  return block;
}

}  // namespace routeopd::study
