//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/study_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "routeopd/report/cells.h"
#include "routeopd/report/effects.h"
#include "routeopd/report/paper_numbers.h"
#include "routeopd/report/study_table_parts.h"
#include "routeopd/report/tolerant_files.h"

namespace routeopd::report {
namespace {

std::optional<double> metric_mean(const StudyFiles& study, const std::string& name, const char* key,
                                  bool last) {
  std::vector<std::optional<double>> values;
  for (const StudyRun* run : study.runs_of(name)) {
    const std::vector<StepMetrics>& steps = run->files.metrics;
    if (run->complete && !steps.empty())
      values.push_back(metric_named(key, last ? steps.back() : steps.front()));
  }
  return mean_of(values);
}

}  // namespace

const std::vector<std::string>& main_arms() {
  static const std::vector<std::string> arms = {"sampled_rkl", "full_rkl", "full_fkl",  "fixed_mid",
                                                "routeopd",    "exact",    "union_rkl", "union_fkl"};
  return arms;
}

TextTable number_table(const std::vector<std::string>& titles) {
  std::vector<TextTable::Column> columns;
  for (const std::string& title : titles)
    columns.push_back({title, columns.empty() ? Align::kLeft : Align::kRight});
  return TextTable(std::move(columns));
}

std::string average_name(const StudyView& view) {
  return fmt::format("Avg@{}", view.grades.samples());
}

std::string paper_cell(std::string_view id, std::string_view row, std::string_view column, int digits) {
  return number(paper_number(id, row, column), digits);
}

std::optional<double> paper_difference(std::string_view id, std::string_view row, std::string_view reference,
                                       std::string_view column) {
  const std::optional<double> first = paper_number(id, row, column),
                              second = paper_number(id, reference, column);
  if (!first || !second) return std::nullopt;
  return *first - *second;
}

void say(std::string& words, std::string_view sentence) {
  if (!words.empty() && !sentence.empty()) words += ' ';
  words += sentence;
}

void say_absent(Block& block, const std::vector<std::string>& names, std::string_view what) {
  if (!names.empty()) block.missing.push_back(fmt::format("No {}: {}.", what, listed(names)));
}

std::string seeds_sentence(const StudyView& view) {
  std::size_t most = 0;
  for (const StudyRun& run : view.files.runs) most = std::max(most, view.files.runs_of(run.name).size());
  return fmt::format(
      "Intervals are 95 % of a paired bootstrap over {} problems of {} samples, {}; they say nothing of how "
      "{} would fare.",
      view.grades.problems(), view.grades.samples(),
      most == 1 ? std::string("one training seed") : fmt::format("up to {} training seeds pooled", most),
      most == 1 ? "another seed" : "other seeds");
}

std::optional<double> last_metric(const StudyFiles& study, const std::string& name, const char* key) {
  return metric_mean(study, name, key, true);
}

std::optional<double> first_metric(const StudyFiles& study, const std::string& name, const char* key) {
  return metric_mean(study, name, key, false);
}

std::vector<std::optional<double>> seed_differences(
    const StudyFiles& study, const std::string& first, const std::string& second,
    const std::function<std::optional<double>(const StudyRun&)>& value) {
  std::vector<std::optional<double>> differences;
  for (const StudyRun* a : study.runs_of(first)) {
    for (const StudyRun* b : study.runs_of(second)) {
      if (a->seed != b->seed || !a->complete || !b->complete) continue;
      const std::optional<double> mine = value(*a), other = value(*b);
      if (mine && other) differences.emplace_back(*mine - *other);
    }
  }
  return differences;
}

std::vector<Section> study_tables(const StudyFiles& study) {
  const StudyView view{study, StudyGrades(study)};
  std::vector<Section> sections = {
      {"Accuracy", accuracy_blocks(view)},       {"Ablations", ablation_blocks(view)},
      {"Support and pairs", sweep_blocks(view)}, {"Mechanism", mechanism_blocks(view)},
      {"Training", training_blocks(view)},       {"Cost", cost_blocks(view)},
      {"Behaviour", behaviour_blocks(view)}};
  std::vector<std::string>& first = sections.front().blocks.front().missing;
  first.insert(first.end(), view.grades.missing().begin(), view.grades.missing().end());
  return sections;
}

std::string study_verdict(const StudyFiles& study) {
  const StudyView view{study, StudyGrades(study)};
  std::vector<std::string> parts;
  for (const char* arm : {"sampled_rkl", "full_rkl", "fixed_mid"}) {
    const std::optional<Contrast> contrast = view.grades.contrast(arm, "routeopd");
    if (!contrast) continue;
    const double paper = *paper_number("paired", "main-2", arm);
    parts.push_back(fmt::format("over {} {} points (the paper {}): {}", arm, points(contrast->difference),
                                signed_number(paper, 2), name_of(outcome_of(paper, contrast->difference))));
  }
  std::string words;
  if (parts.empty()) {
    words = "No evaluation of routeopd and of an arm beside it can be read: nothing is compared.";
  } else {
    words = fmt::format("routeopd, {}: ", average_name(view));
    for (std::size_t i = 0; i < parts.size(); ++i) words += fmt::format("{}{}", i == 0 ? "" : "; ", parts[i]);
    words += '.';
  }
  std::string best;
  double highest = -1;
  for (const std::string& arm : main_arms()) {
    const std::optional<Accuracy> accuracy = view.grades.accuracy(arm);
    if (accuracy && accuracy->average.mean > highest) {
      highest = accuracy->average.mean;
      best = arm;
    }
  }
  if (!best.empty()) {
    const std::optional<Accuracy> base = view.grades.accuracy(kBase);
    say(words, fmt::format("The highest of the main arms is {} with {} %{}.", best, percent(highest, 1),
                           base ? fmt::format(" (untrained {} %)", percent(base->average.mean, 1)) : ""));
  }
  return words;
}

}  // namespace routeopd::report
