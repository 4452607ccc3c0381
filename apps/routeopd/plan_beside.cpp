// SPDX-License-Identifier: Apache-2.0
#include "plan_beside.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "routeopd/formats/json_lines.h"
#include "routeopd/study/paper_numbers.h"
#include "routeopd/table/text_table.h"
#include "routeopd/types/step_metrics.h"

namespace routeopd::app {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// "k16 m2" of the paper's table as settings of a recipe; else the row is an arm.
std::vector<std::string> row_settings(const std::string& row) {
  const std::size_t space = row.find(" m");
  if (space == std::string::npos) return {"objective.arm=" + row};
  return {"objective.arm=routeopd", "objective.k=" + row.substr(1, space - 1),
          "objective.m=" + row.substr(space + 2)};
}

}  // namespace

MeasuredRun read_measured(const std::string& run, double prompts_per_step) {
  formats::JsonLines lines(run + "/metrics.jsonl");
  std::map<std::string, std::vector<double>> seconds;
  MeasuredRun measured;
  double responses = 0, prompts = 0;
  while (const auto line = lines.next()) {
    const StepMetrics step = step_metrics_of(*line);
    ++measured.steps;
    responses += step.response_tokens.value_or(0);
    if (step.teacher_tokens > 0)
      prompts += static_cast<double>(step.teacher_tokens - step.tokens) / prompts_per_step;
    measured.peak_bytes = std::max(measured.peak_bytes, static_cast<double>(step.peak_bytes));
    if (measured.steps == 1) continue;  // it warms up
    for (const auto& [stage, time] : step.time) seconds[stage].push_back(time);
  }
  if (measured.steps < 2)
    throw UserError("--beside {}: expected metrics of two steps or more, got {}", run, measured.steps);
  const auto steps = static_cast<double>(measured.steps);
  measured.response_tokens = responses / steps;
  measured.prompt_tokens = prompts / steps;
  for (const auto& [stage, times] : seconds) measured.seconds.emplace_back(stage, median(times));
  return measured;
}

// Stages that a plan does not predict, such as saving, are left out of the sum.
std::vector<BesideRow> beside_run(const scale::Prediction& prediction, const MeasuredRun& run) {
  std::vector<BesideRow> rows;
  double measured = 0;
  for (const scale::Stage& stage : prediction.stages) {
    const auto found = std::find_if(run.seconds.begin(), run.seconds.end(),
                                    [&](const auto& each) { return each.first == stage.name; });
    if (found == run.seconds.end()) continue;
    rows.push_back({stage.name, "s", stage.seconds, found->second});
    measured += found->second;
  }
  rows.push_back({"together", "s", prediction.step_seconds(), measured});
  rows.push_back({"memory", "GB", prediction.memory.device_bytes() / 1e9, run.peak_bytes / 1e9});
  return rows;
}

std::vector<BesideRow> beside_paper(const PredictSettings& predict) {
  std::vector<BesideRow> rows;
  for (const study::PaperRow& row : study::paper_table("cost").rows) {
    const scale::Prediction prediction = predict(row_settings(row.name));
    const auto paper = [&](const char* column) {
      return study::paper_number("cost", row.name, column).value_or(0);
    };
    rows.push_back({row.words, "s/step", prediction.step_seconds(), paper("total")});
    rows.push_back({row.words, "s learner",
                    prediction.stage_seconds("learn") + prediction.stage_seconds("communication"),
                    paper("learn")});
    rows.push_back({row.words, "GB", prediction.memory.device_bytes() / 1e9, paper("peak")});
  }
  return rows;
}

std::string beside_text(const std::vector<BesideRow>& rows, const std::string& whose) {
  table::TextTable table({{"", table::Align::kLeft},
                          {"", table::Align::kLeft},
                          {"predicted", table::Align::kRight},
                          {whose, table::Align::kRight},
                          {"ratio", table::Align::kRight}});
  for (const BesideRow& row : rows)
    table.add({row.name, row.what, fmt::format("{:.4g}", row.predicted), fmt::format("{:.4g}", row.measured),
               row.measured > 0 ? fmt::format("{:.2f}", row.predicted / row.measured) : ""});
  return table.text();
}

Json beside_json(const std::vector<BesideRow>& rows) {
  Json all = Json::array();
  for (const BesideRow& row : rows)
    all.push_back(
        {{"name", row.name}, {"unit", row.what}, {"predicted", row.predicted}, {"measured", row.measured}});
  return all;
}

}  // namespace routeopd::app
