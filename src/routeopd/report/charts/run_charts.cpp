// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/charts/run_charts.h"

#include <algorithm>
#include <array>

#include "routeopd/report/charts/palette.h"
#include "routeopd/report/charts/series_charts.h"
#include "routeopd/report/charts/spec.h"
#include "routeopd/report/tolerant_files.h"

namespace routeopd::report {
namespace {

constexpr std::size_t kMostSteps = 250;  // of a line: more are no wider than a pixel
constexpr std::size_t kMostTimes = 6;    // runs whose times are drawn
constexpr double kTimeWidth = 480;       // pixels of the picture of times

struct Curve {
  StepMetrics::Value StepMetrics::* value;
  const char* title;
  double scale;
};

constexpr std::array<Curve, 10> kCurves = {
    {{&StepMetrics::loss, "Loss", 1},
     {&StepMetrics::mass, "Mismatch mass of the batch", 1},
     {&StepMetrics::policy_entropy, "Policy entropy (nats)", 1},
     {&StepMetrics::entropy, "Student entropy, lower bound (nats)", 1},
     {&StepMetrics::teacher_entropy, "Teacher entropy, lower bound (nats)", 1},
     {&StepMetrics::response_tokens, "Response length (tokens)", 1},
     {&StepMetrics::clip_ratio, "Responses cut at the limit (%)", 100},
     {&StepMetrics::routed_share, "Routed states (%)", 100},
     {&StepMetrics::grad_norm, "Gradient norm", 1},
     {&StepMetrics::budget, "Budget (log-odds)", 1}}};

struct Stage {
  std::string_view key, color;
};

// In the order of a step. All contrast with the ground; neighbours differ in hue or lightness and have an
// outline.
constexpr std::array<Stage, 7> kStages = {{{"rollout", "blue"},
                                           {"score", "amber"},
                                           {"route", "ink"},
                                           {"learn", "sky"},
                                           {"save", "purple"},
                                           {"eval", "green"},
                                           {"other", "grey"}}};

// Every n-th line, and the last.
template <class Line, class Use>
void for_some(const std::vector<Line>& lines, const Use& use) {
  const std::size_t stride = (lines.size() + kMostSteps - 1) / kMostSteps;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i % stride == 0 || i + 1 == lines.size()) use(lines[i]);
  }
}

void add_probes(const RunFiles& run, std::vector<CurvePoint>& points) {
  for_some(run.probe, [&](const Json& line) {
    const auto step = whole_at(line, "step");
    const auto mass = number_at(line, {"mass"});
    if (step && mass) points.push_back({run.shown, *step, "Mismatch mass on fixed states", *mass});
    const auto add = [&](const char* key, const char* title) {
      const auto mean = number_at(line, {key, "mean"});
      if (step && mean) points.push_back({run.shown, *step, title, 100 * *mean});
    };
    add("fidelity", "Fidelity of one update (%)");
    add("leakage", "Leakage of one update (%)");
  });
}

void add_points(const RunFiles& run, const Curve& curve, std::vector<CurvePoint>& points) {
  for_some(run.metrics, [&](const StepMetrics& metrics) {
    const StepMetrics::Value value = metrics.*curve.value;
    if (value) points.push_back({run.shown, metrics.step, curve.title, curve.scale * *value});
  });
}

}  // namespace

Block run_curves_figure(const std::vector<RunFiles>& runs) {
  Block block = titled("run-curves", "Training, step by step");
  std::vector<CurvePoint> points;
  for (const RunFiles& run : runs) {
    for (const EvalFiles& eval : run.evals) {
      const auto average = number_at(eval.summary, {"avg"});
      if (eval.step && average)
        points.push_back({run.shown, *eval.step, "Accuracy, Avg@n (%)", 100 * *average});
    }
    add_probes(run, points);
    for (const Curve& curve : kCurves) add_points(run, curve, points);
  }
  if (points.empty()) {
    block.missing.emplace_back("No step was recorded: metrics.jsonl of a run directory holds them.");
    return block;
  }
  block.words = "What metrics.jsonl and probe.jsonl hold, over the steps of the run.";
  draw_curves(points,
              "Small line charts over training steps: loss, mismatch mass, entropy, lengths and others, a "
              "line a run.",
              block);
  return block;
}

Block run_time_figure(const std::vector<RunFiles>& runs) {
  Block block = titled("run-time", "Time of a step");
  Json rows = Json::array(), order = Json::array(), stages = Json::array(), colors = Json::array();
  std::size_t most_bars = 1;  // of one run
  for (const RunFiles& run : runs) {
    if (order.size() == kMostTimes) {
      block.missing.emplace_back("Times are drawn of the first six runs alone.");
      break;
    }
    order.push_back(run.shown);
    std::size_t bars = 0;
    for_some(run.metrics, [&](const StepMetrics& metrics) {
      most_bars = std::max(most_bars, ++bars);
      double other = metrics.seconds();
      for (std::size_t i = 0; i < kStages.size(); ++i) {
        const bool last = i + 1 == kStages.size();
        const auto booked = metrics.time.find(std::string(kStages[i].key));
        if (!last && booked == metrics.time.end()) continue;
        const double seconds = last ? std::max(other, 0.0) : booked->second;
        if (last && seconds < 1e-3) continue;
        other -= seconds;
        rows.push_back({{"run", run.shown},
                        {"step", metrics.step},
                        {"stage", kStages[i].key},
                        {"seconds", seconds},
                        {"place", i}});
      }
    });
  }
  if (rows.empty()) {
    block.missing.emplace_back("No time was recorded: metrics.jsonl of a run directory holds it.");
    return block;
  }
  for (const Stage& stage : kStages) {
    if (std::none_of(rows.begin(), rows.end(), [&](const Json& row) { return row["stage"] == stage.key; }))
      continue;
    stages.push_back(stage.key);
    colors.push_back(chart_color(stage.color));
  }
  block.words = "Seconds of a step by what they go to.";
  block.table = table_of_rows(
      rows, {{"run", "run", 0}, {"step", "step", 0}, {"stage", "stage", 0}, {"seconds", "seconds", 3}});
  block.chart = chart_of(
      block.title,
      "Stacked bars over training steps: seconds of rollout, scoring, routing, learning and other work.",
      rows);
  block.chart["facet"] = {{"row",
                           {{"field", "run"},
                            {"type", "nominal"},
                            {"sort", order},
                            {"header",
                             {{"labelAngle", 0},
                              {"labelOrient", "top"},
                              {"labelPadding", -14},
                              {"labelAnchor", "start"},
                              {"title", nullptr}}}}}};
  // Many steps have narrow bars, which a wide outline would cover.
  const double outline = std::min(0.5, 0.1 * kTimeWidth / static_cast<double>(most_bars));
  block.chart["spec"] = {
      {"width", kTimeWidth},
      {"height", 130},
      {"mark",
       {{"type", "bar"}, {"width", {{"band", 1}}}, {"stroke", chart_color("ink")}, {"strokeWidth", outline}}},
      {"encoding",
       {{"x",
         {{"field", "step"},
          {"type", "ordinal"},
          {"title", "step"},
          {"axis", {{"labelAngle", 0}, {"labelOverlap", true}, {"grid", false}, {"ticks", false}}}}},
        {"y", quantity("seconds", "seconds")},
        {"order", {{"field", "place"}, {"type", "quantitative"}}},
        {"color", category("stage", "",
                           {{"scale", {{"domain", stages}, {"range", colors}}},
                            {"legend",
                             {{"title", nullptr},
                              {"symbolType", "square"},
                              {"symbolStrokeColor", chart_color("ink")},
                              {"symbolStrokeWidth", 0.5}}}})}}}};
  block.chart["resolve"] = {{"scale", {{"x", "independent"}}}};
  return block;
}

}  // namespace routeopd::report
