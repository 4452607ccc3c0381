// A study's files as the paper's tables, ours beside its numbers. Words are made from the numbers by rule (effects.h): what
// the intervals show, and where the study does not show what the paper has.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "routeopd/report/block.h"
#include "routeopd/report/run_files.h"

namespace routeopd::report {

// Every table that the study could fill, in the paper's order. One whose files are missing is a block without a table that
// says so.
std::vector<Section> study_tables(const StudyFiles& study);

// What the study found, for the top of a report: a sentence or two.
std::string study_verdict(const StudyFiles& study);

// Each block with a table as ID.md, ID.csv and ID.tex in a directory, which is made where there is none. Blocks without one
// leave a file that is there alone. Throws UserError where a file cannot be written.
void write_tables(const std::vector<Section>& sections, const std::filesystem::path& directory);

}  // namespace routeopd::report
