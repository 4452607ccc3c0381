// Evaluations, suite by suite.
//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/charts/directory_charts.h"
#include "routeopd/report/charts/ranges.h"
#include "routeopd/report/charts/spec.h"
#include "routeopd/report/tolerant_files.h"

namespace routeopd::report {
namespace {

// use(suite, summary) of every suite of an evaluation, in order of its name.
template <class Use>
void for_each_suite(const EvalFiles& eval, const Use& use) {
  const auto suites = eval.summary.find("suites");
  if (!eval.summary.is_object() || suites == eval.summary.end() || !suites->is_object()) return;
  for (auto suite = suites->begin(); suite != suites->end(); ++suite) use(suite.key(), suite.value());
}

std::optional<double> number_in_list(const Json& list, std::size_t place) {
  if (!list.is_array() || place >= list.size() || !list[place].is_number()) return std::nullopt;
  return list[place].get<double>();
}

std::optional<double> times(std::optional<double> value, double factor) {
  return value ? std::optional(*value * factor) : value;
}

}  // namespace

Block eval_accuracy_figure(const std::vector<EvalFiles>& evals) {
  Block block = titled("eval-accuracy", "Accuracy by suite");
  std::vector<RangeRow> rows;
  for (const EvalFiles& eval : evals) {
    for_each_suite(eval, [&](const std::string& name, const Json& suite) {
      const auto average = number_at(suite, {"avg"});
      if (!average) return;
      const Json& interval = list_at(suite, "avg_interval");
      rows.push_back({.group = short_text(name, 60),
                      .name = eval.shown,
                      .middle = 100 * *average,
                      .low = times(number_in_list(interval, 0), 100),
                      .high = times(number_in_list(interval, 1), 100),
                      .inner_low = {},
                      .inner_high = {}});
    });
  }
  if (rows.empty()) {
    block.missing.emplace_back("No accuracy is known: summary.json of an eval directory holds it.");
    return block;
  }
  block.words = "Avg@n with the 95 % interval of a bootstrap over problems.";
  draw_ranges(
      rows,
      {.axis = "accuracy, Avg@n (%)",
       .description = "Points with 95 % intervals: accuracy in percent of each evaluation, suite by suite.",
       .middle = "Avg@n %",
       .low = "low",
       .high = "high",
       .inner_low = {},
       .inner_high = {},
       .digits = 2},
      block);
  return block;
}

Block eval_lengths_figure(const std::vector<EvalFiles>& evals) {
  Block block = titled("eval-lengths", "Length of responses");
  std::vector<RangeRow> rows;
  for (const EvalFiles& eval : evals) {
    for_each_suite(eval, [&](const std::string& name, const Json& suite) {
      const auto median = number_at(suite, {"length", "p50"});
      if (!median) return;
      rows.push_back({.group = short_text(name, 60),
                      .name = eval.shown,
                      .middle = *median,
                      .low = number_at(suite, {"length", "p10"}),
                      .high = number_at(suite, {"length", "p90"}),
                      .inner_low = number_at(suite, {"length", "p25"}),
                      .inner_high = number_at(suite, {"length", "p75"})});
    });
  }
  if (rows.empty()) {
    block.missing.emplace_back("No length is known: summary.json of an eval directory holds them.");
    return block;
  }
  block.words = "Median, middle half (thick) and the range from the 10th to the 90th percentile (thin).";
  draw_ranges(rows,
              {.axis = "length (tokens)",
               .description = "Ranges of response lengths in tokens of each evaluation, suite by suite.",
               .middle = "median",
               .low = "P10",
               .high = "P90",
               .inner_low = "P25",
               .inner_high = "P75",
               .digits = 0},
              block);
  return block;
}

}  // namespace routeopd::report
