// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_tables.h"

#include <array>
#include <set>

#include "routeopd/study/ablation_tables.h"
#include "routeopd/study/accuracy_tables.h"
#include "routeopd/study/behaviour_tables.h"
#include "routeopd/study/cost_tables.h"
#include "routeopd/study/effects.h"
#include "routeopd/study/mechanism_tables.h"
#include "routeopd/study/study_suites.h"
#include "routeopd/study/study_view.h"
#include "routeopd/study/sweep_tables.h"
#include "routeopd/study/training_tables.h"

namespace routeopd::study {

namespace {

using TableMaker = std::vector<Block> (*)(const StudyView&, std::vector<Verdict>&);

struct TableSection {
  const char* title;
  TableMaker make;
  bool by_suite = false;  // has tables that are made suite by suite
};
constexpr std::array<TableSection, 7> kTableSections = {{{"Accuracy", accuracy_blocks},
                                                         {"Ablations", ablation_blocks, true},
                                                         {"Support and pairs", sweep_blocks},
                                                         {"Mechanism", mechanism_blocks},
                                                         {"Training", training_blocks, true},
                                                         {"Cost", cost_blocks},
                                                         {"Behaviour", behaviour_blocks, true}}};

}  // namespace

StudyTables study_tables(const StudyResults& study, const std::vector<std::string>& suites) {
  const StudyView view{study, StudyGrades(study)};
  const StudyBySuite split = by_suite(study, suites);
  StudyTables tables;
  std::set<std::string> told;
  for (const TableSection& each : kTableSections) {
    std::vector<Verdict> verdicts;
    std::vector<Block> blocks;
    if (each.by_suite && split.pooled)
      blocks = each.make({*split.pooled, StudyGrades(*split.pooled)}, verdicts);
    else
      blocks = each.make(view, verdicts);
    if (each.by_suite) {
      const auto make = [&](const StudyResults& one) {
        std::vector<Verdict> ignored;  // verdicts are of the suites together
        return each.make({one, StudyGrades(one)}, ignored);
      };
      add_suites(split, make, blocks);
    }
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

}  // namespace routeopd::study
