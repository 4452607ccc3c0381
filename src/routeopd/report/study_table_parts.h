// What the families of study tables share: internal to study_*.cpp.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/report/block.h"
#include "routeopd/report/run_files.h"
#include "routeopd/report/study_grades.h"

namespace routeopd::report {

// A study while its tables are made.
struct StudyView {
  const StudyFiles& files;
  StudyGrades grades;
};

using Cells = std::vector<std::string>;

// Trained arms that are compared throughout: the paper's, then ours.
const std::vector<std::string>& main_arms();

// The first column holds words, the others numbers.
TextTable number_table(const std::vector<std::string>& titles);

// "Avg@16".
std::string average_name(const StudyView& view);

// The paper's number as a cell.
std::string paper_cell(std::string_view id, std::string_view row, std::string_view column, int digits);

// The difference of two rows of a paper's column; none where either is missing.
std::optional<double> paper_difference(std::string_view id, std::string_view row, std::string_view reference,
                                       std::string_view column);

// Adds a sentence to words.
void say(std::string& words, std::string_view sentence);

// "No run with a readable evaluation: a, b and c." where there are any.
void say_absent(Block& block, const std::vector<std::string>& names, std::string_view what);

// How many seeds, problems and samples the intervals rest on, and what they leave open.
std::string seeds_sentence(const StudyView& view);

// A metric by its name (types/step_metrics.h), of the last or first step of each of a variant's complete runs, averaged
// over seeds.
std::optional<double> last_metric(const StudyFiles& study, const std::string& name, const char* key);
std::optional<double> first_metric(const StudyFiles& study, const std::string& name, const char* key);

// Of each seed that both variants have complete, `value` of the first less that of the second.
std::vector<std::optional<double>> seed_differences(
    const StudyFiles& study, const std::string& first, const std::string& second,
    const std::function<std::optional<double>(const StudyRun&)>& value);

std::vector<Block> accuracy_blocks(const StudyView& view);
std::vector<Block> ablation_blocks(const StudyView& view);
std::vector<Block> sweep_blocks(const StudyView& view);
std::vector<Block> mechanism_blocks(const StudyView& view);
std::vector<Block> training_blocks(const StudyView& view);
std::vector<Block> cost_blocks(const StudyView& view);
std::vector<Block> behaviour_blocks(const StudyView& view);

}  // namespace routeopd::report
