// routeopd compare: paired contrasts between eval directories.
//
// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>

#include "command.h"
#include "routeopd/grade/compare.h"
#include "routeopd/report/comparison.h"

namespace routeopd::app {
namespace {

struct CompareArguments {
  std::vector<std::string> directories;
  grade::Bootstrap bootstrap;
  bool markdown = false;
  OutputFlags output;
};

Json interval_json(const grade::Interval& interval) {
  return {{"mean", interval.mean}, {"low", interval.low}, {"high", interval.high}};
}

Json comparison_json(const grade::Comparison& comparison) {
  Json suites = Json::object();
  for (const grade::SuiteComparison& suite : comparison.suites) {
    Json changes = Json::array();
    for (const grade::ProblemChange& change : suite.changes)
      changes.push_back(
          {{"problem", change.problem}, {"right_a", change.right_a}, {"right_b", change.right_b}});
    suites[suite.name] = {{"n", suite.problems},
                          {"samples", suite.samples},
                          {"avg_a", suite.average_a},
                          {"avg_b", suite.average_b},
                          {"contrast", interval_json(suite.contrast)},
                          {"transitions",
                           {{"both", suite.transitions.both},
                            {"a_only", suite.transitions.a_only},
                            {"b_only", suite.transitions.b_only},
                            {"neither", suite.transitions.neither}}},
                          {"changes", changes}};
  }
  return {{"a", comparison.run_a},
          {"b", comparison.run_b},
          {"avg_a", comparison.average_a},
          {"avg_b", comparison.average_b},
          {"contrast", interval_json(comparison.contrast)},
          {"suites", suites}};
}

void run_compare(const CompareArguments& arguments) {
  const grade::EvalRun first = grade::read_eval_directory(arguments.directories.front());
  Json all = Json::array();
  for (std::size_t i = 1; i < arguments.directories.size(); ++i) {
    const grade::Comparison comparison =
        grade::compare_runs(first, grade::read_eval_directory(arguments.directories[i]), arguments.bootstrap);
    if (arguments.output.json) {
      all.push_back(comparison_json(comparison));
    } else {
      if (i > 1) std::cout << '\n';
      std::cout << (arguments.markdown ? report::comparison_markdown(comparison)
                                       : report::comparison_text(comparison));
    }
  }
  if (arguments.output.json) std::cout << (all.size() == 1 ? all.front() : all).dump() << '\n';
}

}  // namespace

void add_compare(CLI::App& app) {
  const auto arguments = std::make_shared<CompareArguments>();
  app.add_option("directories", arguments->directories,
                 "Eval directories; the first is what the others are compared with")
      ->required()
      ->expected(2, 1000);
  app.add_option("--seed", arguments->bootstrap.seed, "Seed of the bootstrap")->capture_default_str();
  app.add_option("--draws", arguments->bootstrap.draws, "Bootstrap draws")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_flag("--markdown", arguments->markdown, "Print Markdown");
  add_output_flags(app, arguments->output);
  app.footer(
      "Paired on (problem, sample); 95 % percentile interval of a bootstrap over problems.\n\n"
      "Example:\n"
      "  routeopd compare runs/eval-base runs/eval-student");
  app.callback([arguments] { run_compare(*arguments); });
}

}  // namespace routeopd::app
