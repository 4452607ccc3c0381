// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/cost_tradeoff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "routeopd/report/arms.h"
#include "routeopd/report/charts/labels.h"
#include "routeopd/report/charts/palette.h"
#include "routeopd/report/charts/spec.h"

namespace routeopd::study {
namespace {

using report::category;
using report::chart_color;
using report::chart_of;
using report::Extent;
using report::extent_of;
using report::finite;
using report::label_layer;
using report::LabelledPoint;
using report::LabelPlace;
using report::lead_layer;
using report::place_labels;
using report::Plot;
using report::put_place;
using report::quantity;
using report::scales_of_series;
using report::SeriesScales;
using report::shown_series;
using report::table_of_rows;

constexpr double kCostWidth = 480, kCostHeight = 300;  // pixels
constexpr double kFullSupport = 1e9;                   // after every number on the line of the k sweep

// Marker area in square pixels, in proportion to the memory: 320 for the heaviest arm, and never too small to
// be seen.
double area_of(double bytes, double heaviest) {
  return heaviest > 0 ? std::max(320 * bytes / heaviest, 24.0) : 200;
}

std::optional<double> overhead_of(const std::optional<double>& ratio) {
  return ratio ? std::optional(100 * (*ratio - 1)) : std::nullopt;
}

double support_of(const Json& arm) {
  const auto k = arm.find("k");
  if (k == arm.end()) return 0;
  if (k->is_string()) return *k == "full" ? kFullSupport : 0;
  return k->is_number() ? k->get<double>() : 0;
}

bool is_main(const std::string& name) {
  const report::Arm* const arm = report::find_arm(name);
  return arm != nullptr && arm->main;
}

}  // namespace

Block cost_tradeoff(const StudyResults& study, const StudyGrades& grades) {
  std::vector<CostPoint> points;
  for (const Json& arm : list_at(study.cost, "arms")) {
    const std::string name = text_at(arm, "name");
    const auto overhead = overhead_of(number_at(arm, {"relative_total", "mean"}));
    const bool swept = name == "routeopd" || name.starts_with("routeopd-k");
    // The reference is sampled_rkl without records: the same updates, and the same accuracy.
    const bool reference = name == text_at(study.cost, "reference");
    if (!overhead || !(swept || reference || is_main(name))) continue;
    const std::optional<Accuracy> accuracy = grades.accuracy(reference ? "sampled_rkl" : name);
    if (!accuracy) continue;
    points.push_back({.name = name,
                      .overhead = {*overhead, overhead_of(number_at(arm, {"relative_total", "low"})),
                                   overhead_of(number_at(arm, {"relative_total", "high"}))},
                      .accuracy = {100 * accuracy->average.mean, {}, {}},
                      .peak_bytes = number_at(arm, {"peak_bytes"}).value_or(0),
                      .k = swept ? support_of(arm) : 0});
  }
  return cost_tradeoff_figure(points);
}

Block cost_tradeoff_figure(const std::vector<CostPoint>& points) {
  Block block = titled("cost-tradeoff", "Accuracy against cost");
  if (points.empty()) {
    block.missing.emplace_back(
        "No arm has both its cost and its accuracy: the parts main and cost give them.");
    return block;
  }
  block.words =
      "A step's time beyond that of sampled-RKL in its lean form, which scores the tokens taken alone, and "
      "the "
      "accuracy that it buys; up and left is better. The area of "
      "a marker is in proportion to "
      "the peak memory. Horizontal bars are the time's 95 % interval. The line joins RouteOPD by its support "
      "k.";
  std::vector<double> overheads, accuracies, bytes;
  for (const CostPoint& point : points) {
    for (const std::optional<double>& value : {point.overhead.low, point.overhead.high})
      overheads.push_back(value.value_or(point.overhead.value));
    for (const std::optional<double>& value : {point.accuracy.low, point.accuracy.high})
      accuracies.push_back(value.value_or(point.accuracy.value));
    bytes.push_back(point.peak_bytes);
  }
  const Extent x = extent_of(overheads, 0.12), y = extent_of(accuracies, 0.08);
  const double heaviest = *std::max_element(bytes.begin(), bytes.end());
  const Plot plot{.x = x, .y = y, .width = kCostWidth, .height = kCostHeight};
  const double per_percent = kCostWidth / (x.high - x.low);  // pixels
  std::vector<LabelledPoint> labelled;
  std::vector<std::string> names;
  for (const CostPoint& point : points) {
    labelled.push_back(
        {plot.across(point.overhead.value), plot.down(point.accuracy.value),
         std::sqrt(area_of(point.peak_bytes, heaviest)) / 2, shown_series(point.name),
         (point.overhead.value - point.overhead.low.value_or(point.overhead.value)) * per_percent,
         (point.overhead.high.value_or(point.overhead.value) - point.overhead.value) * per_percent});
    names.push_back(point.name);
  }
  const std::vector<LabelPlace> places = place_labels(labelled, kCostWidth, kCostHeight);
  Json rows = Json::array(), sweep = Json::array();
  for (std::size_t i = 0; i < points.size(); ++i) {
    const CostPoint& point = points[i];
    rows.push_back({{"variant", labelled[i].label},
                    {"label", labelled[i].label},
                    {"overhead", finite(point.overhead.value)},
                    {"overhead_low", finite(point.overhead.low)},
                    {"overhead_high", finite(point.overhead.high)},
                    {"accuracy", finite(point.accuracy.value)},
                    {"accuracy_low", finite(point.accuracy.low)},
                    {"accuracy_high", finite(point.accuracy.high)},
                    {"memory", finite(point.peak_bytes / 1e9)},
                    {"area", area_of(point.peak_bytes, heaviest)}});
    put_place(places[i], plot, point.overhead.value, point.accuracy.value, rows.back());
    if (point.k > 0)
      sweep.push_back({{"k", point.k},
                       {"overhead", finite(point.overhead.value)},
                       {"accuracy", finite(point.accuracy.value)}});
  }
  block.table = table_of_rows(rows, {{"variant", "variant", 0},
                                     {"overhead", "overhead %", 1},
                                     {"overhead_low", "low", 1},
                                     {"overhead_high", "high", 1},
                                     {"accuracy", "Avg@n %", 2},
                                     {"accuracy_low", "low", 2},
                                     {"accuracy_high", "high", 2},
                                     {"memory", "peak memory GB", 3}});
  const Json at_x = quantity("overhead", "time of a step over lean sampled-RKL's (%)",
                             {{"scale", {{"domain", {x.low, x.high}}, {"nice", false}, {"zero", false}}}});
  const Json at_y = quantity("accuracy", "accuracy, Avg@n (%)",
                             {{"scale", {{"domain", {y.low, y.high}}, {"nice", false}, {"zero", false}}}});
  const SeriesScales scales = scales_of_series(names);
  const auto span = [&](const char* low, const char* high, bool across) {
    Json from = across ? at_x : at_y;
    from["field"] = low;
    Json encoding = {{"x", across ? from : at_x}, {"y", across ? at_y : from}};
    encoding[across ? "x2" : "y2"] = {{"field", high}};
    return Json{{"mark", {{"type", "rule"}, {"opacity", 0.7}}}, {"encoding", encoding}};
  };
  block.chart = chart_of(block.title,
                         "Scatter plot of accuracy in percent against the time of a step beyond that of lean "
                         "sampled-RKL in percent; "
                         "the area of a marker is the peak memory.",
                         rows);
  block.chart["width"] = kCostWidth;
  block.chart["height"] = kCostHeight;
  block.chart["layer"] = Json::array(
      {{{"data", {{"values", sweep}}},
        {"mark",
         {{"type", "line"}, {"color", chart_color("faint")}, {"strokeWidth", 1}, {"strokeDash", {3, 3}}}},
        {"encoding", {{"x", at_x}, {"y", at_y}, {"order", {{"field", "k"}, {"type", "quantitative"}}}}}},
       lead_layer(at_x, at_y),
       span("overhead_low", "overhead_high", true),
       span("accuracy_low", "accuracy_high", false),
       {{"mark", {{"type", "point"}, {"stroke", chart_color("ground")}, {"strokeWidth", 1}}},
        {"encoding",
         {{"x", at_x},
          {"y", at_y},
          {"color", category("variant", "", {{"scale", scales.color}, {"legend", nullptr}})},
          {"shape", category("variant", "", {{"scale", scales.shape}, {"legend", nullptr}})},
          {"size", quantity("area", "", {{"scale", nullptr}, {"legend", nullptr}})}}}},
       label_layer(at_x, at_y)});
  return block;
}

}  // namespace routeopd::study
