// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/phase_portrait.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "routeopd/report/arms.h"
#include "routeopd/report/charts/labels.h"
#include "routeopd/report/charts/palette.h"
#include "routeopd/report/charts/spec.h"
#include "routeopd/study/probe_contrast.h"

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
using report::short_number;
using report::shown_series;
using report::table_of_rows;

constexpr double kPhaseWidth = 480, kPhaseHeight = 360, kPhaseRadius = 6;  // pixels
constexpr double kLineStep = 8;  // pixels between the places of a line that labels keep off

// Beside the main arms: controls that send mass elsewhere.
constexpr std::array<std::string_view, 3> kPortrayedControls = {"rank_matched", "random_background",
                                                                "uniform_deficit"};

bool is_portrayed(const std::string& name) {
  const report::Arm* const arm = report::find_arm(name);
  return arm != nullptr && (arm->main || std::find(kPortrayedControls.begin(), kPortrayedControls.end(),
                                                   name) != kPortrayedControls.end());
}

// Checkpoints and the lines between them, as marks without words.
void add_path(const std::vector<PhaseCheckpoint>& checkpoints, const Plot& plot,
              std::vector<LabelledPoint>& marks) {
  for (std::size_t i = 0; i < checkpoints.size(); ++i) {
    const double x = plot.across(checkpoints[i].fidelity), y = plot.down(100 - checkpoints[i].leakage);
    if (i > 0) {
      const double from_x = plot.across(checkpoints[i - 1].fidelity),
                   from_y = plot.down(100 - checkpoints[i - 1].leakage);
      const double steps = std::floor(std::hypot(x - from_x, y - from_y) / kLineStep);
      for (double step = 1; step < steps; ++step)
        marks.push_back({from_x + (x - from_x) * step / steps, from_y + (y - from_y) * step / steps, 2, ""});
    }
    marks.push_back({x, y, 4, ""});
  }
}

}  // namespace

Block phase_portrait(const StudyResults& study, const StudyGrades& grades) {
  std::vector<PhasePoint> arms;
  if (const ProbeFiles* const probe = study.probe("arms")) {
    for (const Json& row : list_at(probe->probe, "rows")) {
      const auto fidelity = number_at(row, {"fidelity", "mean"}),
                 leakage = number_at(row, {"leakage", "mean"});
      if (text_at(row, "intervention") != kStep || !fidelity || !leakage) continue;
      const std::string name = text_at(row, "name");
      if (!is_portrayed(name)) continue;
      const std::optional<Accuracy> accuracy = grades.accuracy(name);
      arms.push_back({name, 100 * *fidelity, 100 * *leakage,
                      accuracy ? std::optional(100 * accuracy->average.mean) : std::nullopt});
    }
  }
  std::vector<PhaseCheckpoint> checkpoints;
  for (const StudyRun* run : study.runs_of("routeopd")) {
    for (const Json& line : run->files.probe) {
      const auto fidelity = number_at(line, {"fidelity", "mean"}),
                 leakage = number_at(line, {"leakage", "mean"});
      const auto step = whole_at(line, "step");
      if (step && fidelity && leakage) checkpoints.push_back({*step, 100 * *fidelity, 100 * *leakage});
    }
    if (!checkpoints.empty()) break;  // one run's path; several would cross
  }
  return phase_portrait_figure(arms, checkpoints);
}

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
      "go to tokens without a deficit. Up and right is what is wanted. Large markers are arms, each one "
      "fresh-AdamW step at one RMS, with its Avg@n beside the name where it is known; small ones RouteOPD's "
      "checkpoints, joined in order.";
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
  const Plot plot{.x = x, .y = y, .width = kPhaseWidth, .height = kPhaseHeight};
  std::vector<LabelledPoint> labelled;
  std::vector<std::string> names;
  for (const PhasePoint& point : arms) {
    const std::string name = shown_series(point.name);
    labelled.push_back(
        {plot.across(point.fidelity), plot.down(100 - point.leakage), kPhaseRadius,
         point.accuracy ? fmt::format("{} {}", name, short_number(*point.accuracy, 1)) : name});
    names.push_back(point.name);
  }
  add_path(checkpoints, plot, labelled);
  const std::vector<LabelPlace> places = place_labels(labelled, kPhaseWidth, kPhaseHeight);
  Json rows = Json::array(), trace = Json::array(), all = Json::array();
  for (std::size_t i = 0; i < arms.size(); ++i) {
    rows.push_back({{"variant", shown_series(arms[i].name)},
                    {"label", labelled[i].label},
                    {"fidelity", finite(arms[i].fidelity)},
                    {"specificity", finite(100 - arms[i].leakage)},
                    {"accuracy", finite(arms[i].accuracy)}});
    put_place(places[i], plot, arms[i].fidelity, 100 - arms[i].leakage, rows.back());
  }
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
  block.chart["width"] = kPhaseWidth;
  block.chart["height"] = kPhaseHeight;
  const Json order = {{"field", "step"}, {"type", "quantitative"}};
  block.chart["layer"] = Json::array(
      {{{"data", {{"values", trace}}},
        {"mark", {{"type", "line"}, {"color", chart_color("blue")}, {"strokeWidth", 1}}},
        {"encoding", {{"x", at_x}, {"y", at_y}, {"order", order}}}},
       {{"data", {{"values", trace}}},
        {"mark", {{"type", "point"}, {"color", chart_color("blue")}, {"size", 28}}},
        {"encoding", {{"x", at_x}, {"y", at_y}}}},
       lead_layer(at_x, at_y),
       {{"mark", {{"type", "point"}, {"stroke", chart_color("ground")}, {"strokeWidth", 1}, {"size", 130}}},
        {"encoding",
         {{"x", at_x},
          {"y", at_y},
          {"color", category("variant", "", {{"scale", scales.color}, {"legend", nullptr}})},
          {"shape", category("variant", "", {{"scale", scales.shape}, {"legend", nullptr}})}}}},
       label_layer(at_x, at_y)});
  return block;
}

}  // namespace routeopd::study
