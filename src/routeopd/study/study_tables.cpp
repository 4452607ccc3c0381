// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_tables.h"

#include <fmt/format.h>

#include <array>
#include <set>

#include "routeopd/study/ablation_tables.h"
#include "routeopd/study/accuracy_tables.h"
#include "routeopd/study/behaviour_tables.h"
#include "routeopd/study/cost_tables.h"
#include "routeopd/study/effects.h"
#include "routeopd/study/mechanism_tables.h"
#include "routeopd/study/study_view.h"
#include "routeopd/study/sweep_tables.h"
#include "routeopd/study/training_tables.h"

namespace routeopd::study {

namespace {

using TableMaker = std::vector<Block> (*)(const StudyView&, std::vector<Verdict>&);

struct TableSection {
  const char* title;
  TableMaker make;
};
constexpr std::array<TableSection, 7> kTableSections = {{{"Accuracy", accuracy_blocks},
                                                         {"Ablations", ablation_blocks},
                                                         {"Support and pairs", sweep_blocks},
                                                         {"Mechanism", mechanism_blocks},
                                                         {"Training", training_blocks},
                                                         {"Cost", cost_blocks},
                                                         {"Behaviour", behaviour_blocks}}};

}  // namespace

StudyTables study_tables(const StudyResults& study) {
  const StudyView view{study, StudyGrades(study)};
  StudyTables tables;
  std::set<std::string> told;
  for (const TableSection& each : kTableSections) {
    std::vector<Verdict> verdicts;
    std::vector<Block> blocks = each.make(view, verdicts);
    if (blocks.empty()) continue;
    tables.sections.push_back({each.title, std::move(blocks)});
    for (Verdict& verdict : verdicts) {
      // Two tables may have the same contrast: routeopd over fixed_mid is a main one and one of budgets.
      if (!told.insert(verdict.effect).second) continue;
      verdict.part = each.title;
      tables.verdicts.push_back(std::move(verdict));
    }
  }
  if (!tables.sections.empty()) {
    std::vector<std::string>& first = tables.sections.front().blocks.front().missing;
    first.insert(first.end(), view.grades.missing().begin(), view.grades.missing().end());
  }
  return tables;
}

std::string study_verdict(const StudyResults& study) {
  const StudyView view{study, StudyGrades(study)};
  std::vector<std::string> parts;
  for (const std::string& arm : main_arms()) {
    const std::optional<double> paper = paper_contrast(arm);
    const std::optional<Contrast> contrast = view.grades.contrast(arm, "routeopd");
    if (!paper || !contrast) continue;
    parts.push_back(fmt::format("over {} {} points (the paper {}): {}", arm, points(contrast->difference),
                                signed_number(paper, 2), name_of(outcome_of(*paper, contrast->difference))));
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

}  // namespace routeopd::study
