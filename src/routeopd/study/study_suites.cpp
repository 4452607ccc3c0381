// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_suites.h"

#include <algorithm>
#include <array>
#include <set>

#include "routeopd/table/cells.h"

namespace routeopd::study {
namespace {

using SuiteNames = std::set<std::string>;

// The mean of what all of them have as a number, object by object.
Json mean_of_objects(const std::vector<Json>& objects) {
  Json mean = Json::object();
  for (const auto& [key, first] : objects.front().items()) {
    std::vector<Json> inner;
    double sum = 0;
    bool numbers = true;
    for (const Json& object : objects) {
      const Json value = object.value(key, Json());
      if (value.is_object()) inner.push_back(value);
      numbers = numbers && value.is_number();
      if (value.is_number()) sum += value.get<double>();
    }
    if (inner.size() == objects.size()) mean[key] = mean_of_objects(inner);
    if (numbers) mean[key] = sum / static_cast<double>(objects.size());
  }
  return mean;
}

// What remains of a summary's suites, in order.
std::vector<Json> keep_suites(Json& summary, const SuiteNames& names) {
  std::vector<Json> kept;
  if (!summary.is_object() || !summary.contains("suites") || !summary["suites"].is_object()) return kept;
  Json suites = Json::object();
  for (const auto& [name, suite] : summary["suites"].items()) {
    if (!names.contains(name) || !suite.is_object()) continue;
    suites[name] = suite;
    kept.push_back(suite);
  }
  summary["suites"] = std::move(suites);
  return kept;
}

void restrict_eval(report::EvalFiles& eval, const SuiteNames& names) {
  const std::vector<Json> kept = keep_suites(eval.summary, names);
  if (eval.summary.is_object()) {
    eval.summary["average"] = kept.empty() ? Json() : mean_of_objects(kept);
    eval.summary["avg"] = kept.empty() ? Json() : eval.summary["average"].value("avg", Json());
  }
  std::erase_if(eval.labels,
                [&](const report::ResponseLabel& label) { return !names.contains(label.suite); });
  if (!eval.grades) return;
  keep_suites(eval.grades->summary, names);
  std::erase_if(eval.grades->suites,
                [&](const grade::EvalSuite& suite) { return !names.contains(suite.name); });
  if (eval.grades->suites.empty()) eval.grades.reset();
}

}  // namespace

std::vector<std::string> suites_of(const StudyResults& study) {
  SuiteNames names;
  const auto add = [&](const report::EvalFiles& eval) {
    if (!eval.grades) return;
    for (const grade::EvalSuite& suite : eval.grades->suites) names.insert(suite.name);
  };
  for (const std::optional<report::EvalFiles>* eval : {&study.base, &study.teacher})
    if (*eval) add(**eval);
  for (const StudyRun& run : study.runs) add(run.eval);
  return {names.begin(), names.end()};
}

StudyResults restricted_to(const StudyResults& study, const std::vector<std::string>& suites) {
  const SuiteNames names(suites.begin(), suites.end());
  StudyResults rest = study;
  for (std::optional<report::EvalFiles>* eval : {&rest.base, &rest.teacher})
    if (*eval) restrict_eval(**eval, names);
  for (std::vector<StudyRun>* runs : {&rest.runs, &rest.shared_runs}) {
    for (StudyRun& run : *runs) {
      restrict_eval(run.eval, names);
      for (report::EvalFiles& eval : run.files.evals) restrict_eval(eval, names);
    }
  }
  std::erase_if(rest.concentration,
                [&](const ProblemConcentration& problem) { return !names.contains(problem.suite); });
  return rest;
}

StudyBySuite by_suite(const StudyResults& study, const std::vector<std::string>& chosen) {
  const std::vector<std::string> all = suites_of(study);
  StudyBySuite split;
  for (const std::string& suite : all)
    if (std::find(chosen.begin(), chosen.end(), suite) != chosen.end()) split.suites.push_back(suite);
  if (split.suites.empty()) split.suites = all;
  if (split.suites.size() < all.size()) split.pooled = restricted_to(study, split.suites);
  if (split.suites.size() > 1)
    for (const std::string& suite : split.suites) split.singles.push_back(restricted_to(study, {suite}));
  return split;
}

bool is_by_suite(std::string_view id) {
  static constexpr std::array<std::string_view, 12> kIds = {
      "ablation-destination", "ablation-objective",      "ablation-budget",    "accuracy-by-concentration",
      "training-dynamics",    "correctness-transitions", "error-distribution", "error-transitions",
      "response-lengths",     "component-contrasts",     "dynamics",           "composition"};
  return std::find(kIds.begin(), kIds.end(), id) != kIds.end();
}

void add_suites(const StudyBySuite& split,
                const std::function<std::vector<report::Block>(const StudyResults&)>& make,
                std::vector<report::Block>& blocks) {
  const auto name = [](report::Block& block, const std::string& words) {
    block.title += ", " + words;
    if (block.chart.is_object()) block.chart["title"] = block.title;
  };
  if (split.pooled)
    for (report::Block& block : blocks)
      if (is_by_suite(block.id)) name(block, table::listed(split.suites));
  for (std::size_t s = 0; s < split.singles.size(); ++s) {
    std::string ending = split.suites[s];
    for (char& c : ending)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    for (report::Block& block : make(split.singles[s])) {
      if (!is_by_suite(block.id)) continue;
      block.id += '-' + ending;
      name(block, split.suites[s]);
      blocks.push_back(std::move(block));
    }
  }
}

}  // namespace routeopd::study
