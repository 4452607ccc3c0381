// What the study's tables and figures share: the study with its grades, the words of tables, and which arms
// stand in which table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/report/block.h"
#include "routeopd/report/tolerant_files.h"
#include "routeopd/study/effects.h"
#include "routeopd/study/study_grades.h"
#include "routeopd/study/study_results.h"
#include "routeopd/study/variants.h"
#include "routeopd/table/cells.h"
#include "routeopd/table/text_table.h"
#include "routeopd/table/visible_text.h"

namespace routeopd::study {

using report::Block;
using report::EvalFiles;
using report::list_at;
using report::number_at;
using report::ProbeFiles;
using report::Section;
using report::text_at;
using report::titled;
using report::whole_at;
using table::Align;
using table::in_quotes;
using table::interval;
using table::kDash;
using table::listed;
using table::number;
using table::percent;
using table::points;
using table::signed_number;
using table::significant;
using table::TextTable;
using table::visible;

// A study while its tables are made.
struct StudyView {
  const StudyResults& results;
  StudyGrades grades;
};

using Cells = std::vector<std::string>;

// A number of a figure, with its interval where there is one.
struct Estimate {
  double value = 0;
  std::optional<double> low, high;
};

// Trained arms that are compared throughout: the paper's, then ours.
std::vector<std::string> main_arms();

// Those of them that are not in the paper.
std::vector<std::string> own_arms();

// An arm and those that are its preset with another setting: routeopd and exact.
std::vector<std::string> arm_and_crossings(const std::string& name);

// The rows of a table of the paper, each with its crossings after it.
std::vector<std::string> paper_rows_and_crossings(std::string_view id);

// The main arms between the untrained student and the teacher.
std::vector<std::string> main_arms_and_untrained();

// The first column holds words, the others numbers.
TextTable number_table(const std::vector<std::string>& titles);

// "Avg@16".
std::string average_name(const StudyView& view);

// The mean of those that are there; none where none is.
std::optional<double> mean_of(const std::vector<std::optional<double>>& values);

// The standard deviation of a sample; none of fewer than two.
std::optional<double> spread_of(const std::vector<double>& values);

// The paper's number as a cell.
std::string paper_cell(std::string_view id, std::string_view row, std::string_view column, int digits);

// The difference of two rows of a paper's column; none where either is missing.
std::optional<double> paper_difference(std::string_view id, std::string_view row, std::string_view reference,
                                       std::string_view column);

// The paper's routeopd less an arm on its second pair, which most of its tables are about; none for arms that
// it does not compare.
std::optional<double> paper_contrast(const std::string& arm);

// The arms that a study compares: those that the user named, or else the main ones.
std::vector<std::string> asked_arms(const StudyResults& study);

// Those of them that were graded.
std::vector<std::string> compared_names(const StudyView& view);

// What they are compared with: sampled_rkl, or the first where it was not run; empty where nothing was.
std::string main_reference(const StudyView& view);

// The learning rate of a variant's runs; none where they do not say, or differ.
std::optional<double> rate_of(const std::vector<StudyRun>& runs, const std::string& name);

// Learning rates of the main arms, ascending, each once.
std::vector<double> rates_of(const std::vector<StudyRun>& runs);

// How many seeds the variant with the most of them has.
std::size_t most_seeds(const std::vector<StudyRun>& runs);

// "Each arm at its own learning rate, chosen on validation problems." or which rate all have; empty where
// runs do not say.
std::string rates_sentence(const StudyResults& study);

// What a reader should know of the whole study: the notes of study.json, a sentence each.
void say_notes(const StudyResults& study, std::string& words);

// The paper's paired contrast of routeopd with an arm, with its interval: row "main-1" … or "macro".
std::string paper_interval(const std::string& row, const std::string& arm);

// Adds a sentence to words.
void say(std::string& words, std::string_view sentence);

// A page shows what was run. Whether the user asked for a part of the study: study.json has it.
bool asked(const StudyResults& study, std::string_view part);

// Whether the study keeps to some arms and has none of this name.
bool left_out(const StudyResults& study, std::string_view name);

// Whether the study has runs of this name; of the base and the teacher, an evaluation that it names.
bool was_run(const StudyResults& study, const std::string& name);

// What is left of a part's blocks: all where the part was asked for, else those that have something to show.
std::vector<Block> shown_blocks(std::vector<Block> blocks, bool asked_for);

// "No run with a readable evaluation: a, b and c." where there are any.
void say_absent(Block& block, const std::vector<std::string>& names, std::string_view what);

// The same of those among them that were run.
void say_absent_runs(const StudyResults& study, Block& block, std::vector<std::string> names,
                     std::string_view what);

// How many seeds, problems and samples the intervals rest on, and what they leave open.
std::string seeds_sentence(const StudyView& view);

// A metric by its name (types/step_metrics.h), of the last or first step of each of a variant's complete
// runs, averaged over seeds.
std::optional<double> last_metric(const StudyResults& study, const std::string& name, const char* key);
std::optional<double> first_metric(const StudyResults& study, const std::string& name, const char* key);

// Of each seed that both variants have complete, `value` of the first less that of the second.
std::vector<std::optional<double>> seed_differences(
    const StudyResults& study, const std::string& first, const std::string& second,
    const std::function<std::optional<double>(const StudyRun&)>& value);

}  // namespace routeopd::study
