// Where updates go: fidelity against specificity, arms and the checkpoints of a run.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "routeopd/report/charts/palette.h"
#include "routeopd/report/charts/spec.h"
#include "routeopd/report/charts/study_charts.h"

namespace routeopd::report {
namespace {

constexpr double kPortraitWidth = 480, kPortraitHeight = 360, kRadius = 17;

}  // namespace

Block phase_portrait_figure(const std::vector<PhasePoint>& arms,
                            const std::vector<PhaseCheckpoint>& checkpoints) {
  Block block = titled("phase-portrait", "Fidelity and specificity of an update");
  if (arms.empty() && checkpoints.empty()) {
    block.missing.emplace_back("No arm was probed: the part mechanism does it.");
    return block;
  }
  block.words =
      "Fidelity: of the mass that an update takes from tokens the student has too much of, the part that "
      "comes up on tokens it has too little of. Specificity: 100 minus the leakage, the share of all gains "
      "that "
      "go to tokens without a deficit. Up and right is what is wanted. Large markers are arms, "
      "each one "
      "fresh-AdamW step at one RMS, with Avg@n inside where it is known; small ones RouteOPD's checkpoints, "
      "joined in order.";
  std::vector<double> xs, ys;
  for (const PhasePoint& point : arms) {
    xs.push_back(point.fidelity);
    ys.push_back(100 - point.leakage);
  }
  for (const PhaseCheckpoint& point : checkpoints) {
    xs.push_back(point.fidelity);
    ys.push_back(100 - point.leakage);
  }
  const Extent x = extent_of(xs, 0.12), y = extent_of(ys, 0.12);
  std::vector<LabelledPoint> labelled;
  std::vector<std::string> names;
  for (const PhasePoint& point : arms) {
    labelled.push_back({(point.fidelity - x.low) / (x.high - x.low) * kPortraitWidth,
                        (y.high - 100 + point.leakage) / (y.high - y.low) * kPortraitHeight, kRadius,
                        shown_series(point.name)});
    names.push_back(point.name);
  }
  for (const PhaseCheckpoint& point : checkpoints)
    labelled.push_back({(point.fidelity - x.low) / (x.high - x.low) * kPortraitWidth,
                        (y.high - 100 + point.leakage) / (y.high - y.low) * kPortraitHeight, 6, ""});
  const std::vector<LabelPlace> places = place_labels(labelled, kPortraitWidth, kPortraitHeight);
  Json rows = Json::array(), trace = Json::array(), all = Json::array();
  for (std::size_t i = 0; i < arms.size(); ++i)
    rows.push_back({{"variant", labelled[i].label},
                    {"label", labelled[i].label},
                    {"fidelity", finite(arms[i].fidelity)},
                    {"specificity", finite(100 - arms[i].leakage)},
                    {"accuracy", finite(arms[i].accuracy)},
                    {"inside", arms[i].accuracy ? short_number(*arms[i].accuracy, 1) : ""},
                    {"dx", places[i].dx},
                    {"dy", places[i].dy},
                    {"align", places[i].align}});
  for (const PhaseCheckpoint& point : checkpoints)
    trace.push_back({{"variant", "RouteOPD, checkpoint"},
                     {"step", point.step},
                     {"fidelity", finite(point.fidelity)},
                     {"specificity", finite(100 - point.leakage)}});
  for (const Json& row : rows) all.push_back(row);
  for (const Json& row : trace) all.push_back(row);
  block.table = table_of_rows(all, {{"variant", "variant", 0},
                                    {"step", "step", 0},
                                    {"fidelity", "fidelity %", 2},
                                    {"specificity", "specificity %", 2},
                                    {"accuracy", "Avg@n %", 2}});
  const auto scale = [](const Extent& extent) {
    return Json{{"scale", {{"domain", {extent.low, extent.high}}, {"nice", false}, {"zero", false}}}};
  };
  const Json at_x = quantity("fidelity", "routing fidelity (%)", scale(x));
  const Json at_y = quantity("specificity", "specificity, 100 − background leakage (%)", scale(y));
  const SeriesScales scales = scales_of_series(names);
  block.chart = chart_of(block.title,
                         "Scatter plot of routing fidelity against specificity, both in percent, of the arms "
                         "and of RouteOPD's checkpoints.",
                         rows);
  block.chart["width"] = kPortraitWidth;
  block.chart["height"] = kPortraitHeight;
  const Json order = {{"field", "step"}, {"type", "quantitative"}};
  block.chart["layer"] = Json::array(
      {{{"data", {{"values", trace}}},
        {"mark", {{"type", "line"}, {"color", chart_color("blue")}, {"strokeWidth", 1}}},
        {"encoding", {{"x", at_x}, {"y", at_y}, {"order", order}}}},
       {{"data", {{"values", trace}}},
        {"mark", {{"type", "point"}, {"color", chart_color("blue")}, {"size", 28}}},
        {"encoding", {{"x", at_x}, {"y", at_y}}}},
       {{"mark",
         {{"type", "point"},
          {"filled", true},
          {"fill", chart_color("ground")},
          {"strokeWidth", 2},
          {"size", 1000}}},
        {"encoding",
         {{"x", at_x},
          {"y", at_y},
          {"stroke", category("variant", "", {{"scale", scales.color}, {"legend", nullptr}})}}}},
       {{"mark", {{"type", "text"}, {"fontSize", 10}}},
        {"encoding", {{"x", at_x}, {"y", at_y}, {"text", {{"field", "inside"}, {"type", "nominal"}}}}}},
       label_layer(at_x, at_y)});
  return block;
}

}  // namespace routeopd::report
