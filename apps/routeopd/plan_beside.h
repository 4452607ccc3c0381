// A prediction beside what was measured: a run's metrics, or the paper's table of costs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "routeopd/scale/prediction.h"

namespace routeopd::app {

// What RUN/metrics.jsonl says.
struct MeasuredRun {
  std::vector<std::pair<std::string, double>> seconds;  // by stage and in total: medians after the first step
  double response_tokens = 0, prompt_tokens = 0;        // means; prompts of 0 tokens: no teacher read them
  double peak_bytes = 0;
  std::int64_t steps = 0;
};
MeasuredRun read_measured(const std::string& run, double prompts_per_step);

struct BesideRow {
  std::string name, what;  // "learn", "s"
  double predicted = 0, measured = 0;
};

std::vector<BesideRow> beside_run(const scale::Prediction& prediction, const MeasuredRun& run);

// Every row of the paper's table, planned with its arm, k and m. `predict`: for settings of a recipe.
using PredictSettings = std::function<scale::Prediction(const std::vector<std::string>& settings)>;
std::vector<BesideRow> beside_paper(const PredictSettings& predict);

// `whose`: the title of the column of measurements.
std::string beside_text(const std::vector<BesideRow>& rows, const std::string& whose);
Json beside_json(const std::vector<BesideRow>& rows);

}  // namespace routeopd::app
