// A study as the paper's tables, ours beside its numbers. Words are made from the numbers by rule
// (effects.h): what the intervals show, and where the study does not show what the paper has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "routeopd/report/block.h"
#include "routeopd/study/study_results.h"

namespace routeopd::study {

// Every table of what was run, in the paper's order. One that was asked for and whose files are missing is a
// block without a table that says so; one that was never asked for is absent.
std::vector<report::Section> study_tables(const StudyResults& study);

// What the study found, for the top of a report: a sentence or two.
std::string study_verdict(const StudyResults& study);

}  // namespace routeopd::study
