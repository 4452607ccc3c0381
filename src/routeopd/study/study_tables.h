// A study as the paper's tables, ours beside its numbers, and what becomes of the paper's effects in one
// table of verdicts (effects.h), made from the numbers by rule.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "routeopd/report/block.h"
#include "routeopd/study/effects.h"
#include "routeopd/study/study_results.h"

namespace routeopd::study {

// Every table of what was run, in the paper's order. One that was asked for and whose files are missing is a
// block without a table that says so; one that was never asked for is absent.
struct StudyTables {
  std::vector<report::Section> sections;
  std::vector<Verdict> verdicts;  // of all of them
};
// `suites` are those that the tables of behaviour, dynamics and ablations are of (study_suites.h): all where
// none is named. Of several there is a table of all together and one of each.
StudyTables study_tables(const StudyResults& study, const std::vector<std::string>& suites = {});

}  // namespace routeopd::study
