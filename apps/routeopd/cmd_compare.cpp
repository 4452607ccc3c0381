// routeopd compare: paired contrasts between eval directories.
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
  std::vector<std::pair<std::string, std::string>> pairs;
  grade::Bootstrap bootstrap;
  std::size_t changes = 10;
  table::TableFormat format = table::TableFormat::kText;
  OutputFlags output;
};

Json interval_json(const grade::Interval& interval) {
  return {{"mean", interval.mean}, {"low", interval.low}, {"high", interval.high}};
}

Json bootstrap_json(const grade::Bootstrap& bootstrap) {
  return {{"seed", bootstrap.seed}, {"draws", bootstrap.draws}, {"level", bootstrap.level}};
}

Json transitions_json(const grade::Transitions& counts) {
  return {{"both", counts.both},
          {"a_only", counts.a_only},
          {"b_only", counts.b_only},
          {"neither", counts.neither}};
}

Json macro_json(const grade::MacroRow& row) {
  return {{"pairs", row.pairs},
          {"avg_a", row.average_a},
          {"avg_b", row.average_b},
          {"contrast", interval_json(row.contrast)},
          {"transitions", transitions_json(row.transitions)}};
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
                          {"transitions", transitions_json(suite.transitions)},
                          {"changes", changes}};
  }
  return {{"a", comparison.run_a},
          {"b", comparison.run_b},
          {"bootstrap", bootstrap_json(comparison.bootstrap)},
          {"avg_a", comparison.average_a},
          {"avg_b", comparison.average_b},
          {"contrast", interval_json(comparison.contrast)},
          {"transitions", transitions_json(comparison.transitions)},
          {"suites", suites}};
}

void print(const Json& answer) {
  std::cout << answer.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
}

// The first directory with each of the others.
void compare_with_first(const CompareArguments& arguments) {
  const grade::EvalRun first = grade::read_eval_directory(arguments.directories.front());
  Json all = Json::array();
  for (std::size_t i = 1; i < arguments.directories.size(); ++i) {
    const grade::Comparison comparison =
        grade::compare_runs(first, grade::read_eval_directory(arguments.directories[i]), arguments.bootstrap);
    if (arguments.output.json) {
      all.push_back(comparison_json(comparison));
    } else if (!arguments.output.quiet) {
      std::cout << (i > 1 ? "\n" : "")
                << report::comparison_report(comparison, arguments.format, arguments.changes);
    }
  }
  if (arguments.output.json) print(all.size() == 1 ? all.front() : Json{{"comparisons", all}});
}

void compare_all_pairs(const CompareArguments& arguments) {
  std::vector<std::pair<grade::EvalRun, grade::EvalRun>> runs;
  for (const auto& [a, b] : arguments.pairs)
    runs.emplace_back(grade::read_eval_directory(a), grade::read_eval_directory(b));
  const grade::MacroComparison macro = grade::compare_pairs(runs, arguments.bootstrap);
  if (!arguments.output.json) {
    if (!arguments.output.quiet) std::cout << report::macro_report(macro, arguments.format);
    return;
  }
  Json answer = {{"pairs", Json::array()}, {"suites", Json::object()}, {"macro", macro_json(macro.average)}};
  for (const grade::Comparison& pair : macro.pairs) answer["pairs"].push_back(comparison_json(pair));
  for (const grade::MacroRow& row : macro.suites) answer["suites"][row.name] = macro_json(row);
  print(answer);
}

void run_compare(const CompareArguments& arguments) {
  if (!arguments.pairs.empty()) {
    compare_all_pairs(arguments);
  } else if (arguments.directories.size() > 1) {
    compare_with_first(arguments);
  } else {
    throw CLI::RequiredError("two or more eval directories, or --pair A B");
  }
}

}  // namespace

void add_compare(CLI::App& app) {
  const auto arguments = std::make_shared<CompareArguments>();
  CLI::Option* const directories =
      app.add_option("directories", arguments->directories,
                     "Eval directories; the first is what the others are compared with")
          ->expected(0, 1000);
  app.add_option("--pair", arguments->pairs,
                 "A B: eval directories of one pair; given several times, the mean over pairs is shown too")
      ->excludes(directories);
  app.add_option("--seed", arguments->bootstrap.seed, "Seed of the bootstrap")->capture_default_str();
  app.add_option("--draws", arguments->bootstrap.draws, "Bootstrap draws")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--level", arguments->bootstrap.level, "Coverage of the intervals")
      ->check(between(0.5, 0.9999))
      ->capture_default_str();
  app.add_option("--changes", arguments->changes, "Changed problems to show per suite, worst first")
      ->capture_default_str();
  add_table_flags(app, arguments->format);
  add_output_flags(app, arguments->output);
  app.footer(
      "Paired on (problem, sample); percentile interval of a bootstrap over problems. Runs whose problems,\n"
      "samples, decoding or extractor differ are refused. docs/evaluation.md says how often the intervals\n"
      "cover the truth.\n\n"
      "Examples:\n"
      "  routeopd compare runs/eval-base runs/eval-student\n"
      "  routeopd compare --pair a/sampled_rkl a/routeopd --pair b/sampled_rkl b/routeopd --latex");
  app.callback([arguments] { run_compare(*arguments); });
}

}  // namespace routeopd::app
