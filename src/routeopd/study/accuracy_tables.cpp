// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/accuracy_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "routeopd/study/distance_tables.h"
#include "routeopd/study/effects.h"
#include "routeopd/study/paper_numbers.h"

namespace routeopd::study {
namespace {

// The main table of some of the study's runs: those at each arm's own learning rate, or those at a shared
// one.
struct MainTable {
  const StudyView& view;  // with the grades of these runs
  const std::vector<StudyRun>& runs;
  bool rates;  // whether it has a column of learning rates
};

std::vector<std::string> main_titles(const MainTable& of) {
  const StudyView& view = of.view;
  std::vector<std::string> titles = {"arm"};
  if (of.rates) titles.emplace_back("learning rate");
  for (const char* title : {"", "95 % interval", "seeds", "sd over seeds"})
    titles.push_back(*title == '\0' ? average_name(view) + " %" : std::string(title));
  // The average over one suite is that suite.
  if (view.grades.suites().size() > 1)
    for (const std::string& suite : view.grades.suites()) titles.push_back(visible(suite) + " %");
  titles.push_back(fmt::format("over {} [95 %]", kMainReference));
  for (int s = 1; s <= kPaperSettings; ++s) titles.push_back(fmt::format("paper {}", s));
  return titles;
}

Cells main_row(const MainTable& of, const std::string& name, const Accuracy& accuracy) {
  const StudyView& view = of.view;
  const bool trained = name != kBase && name != kTeacher;
  const std::optional<double> spread = spread_of(accuracy.per_seed);
  Cells cells = {name == kBase ? "base (untrained)" : name};
  if (of.rates) cells.push_back(significant(rate_of(of.runs, name)));
  cells.insert(cells.end(),
               {percent(accuracy.average.mean), interval(accuracy.average.low, accuracy.average.high),
                trained ? std::to_string(accuracy.per_seed.size()) : kDash, percent(spread)});
  if (accuracy.per_suite.size() > 1)
    for (const double average : accuracy.per_suite) cells.push_back(percent(average));
  const std::optional<Contrast> contrast =
      trained && name != kMainReference ? view.grades.contrast(kMainReference, name) : std::nullopt;
  cells.push_back(contrast ? points(contrast->difference) : kDash);
  for (int s = 1; s <= kPaperSettings; ++s)
    cells.push_back(paper_cell(fmt::format("main-{}", s), name, "avg", 2));
  return cells;
}

// The main arms and what else the user named, between the untrained student and the teacher.
std::vector<std::string> main_names(const StudyView& view) {
  std::vector<std::string> names = main_arms_and_untrained();
  for (const std::string& name : compared_names(view))
    if (std::find(names.begin(), names.end(), name) == names.end()) names.insert(names.end() - 1, name);
  return names;
}

Block main_block(const MainTable& of) {
  const StudyView& view = of.view;
  Block block = titled("main-table", fmt::format("Accuracy, {} in percent", average_name(view)));
  TextTable table = number_table(main_titles(of));
  std::vector<std::string> absent;
  for (const std::string& name : main_names(view)) {
    if (const std::optional<Accuracy> accuracy = view.grades.accuracy(name))
      table.add(main_row(of, name, *accuracy));
    else
      absent.push_back(name);
  }
  if (&of.runs == &view.results.runs) say_absent_runs(view.results, block, absent, "readable evaluation of");
  if (table.rows().empty()) return block;
  block.table = std::move(table);
  say(block.words, rates_sentence(view.results));
  say_notes(view.results, block.words);
  say(block.words, seeds_sentence(view));
  std::string settings = "The paper's columns are averages over its four benchmarks:";
  for (int s = 1; s <= kPaperSettings; ++s)
    settings += fmt::format(" {}, {}{}", s, paper_setting(s), s == kPaperSettings ? "." : ";");
  say(block.words, settings);
  return block;
}

// The same arms, all at one learning rate.
std::optional<Block> shared_block(const StudyView& view) {
  const StudyResults& study = view.results;
  if (study.shared_runs.empty()) return std::nullopt;
  const StudyView shared{study, StudyGrades(study, study.shared_runs)};
  Block block = main_block({shared, study.shared_runs, false});
  block.id = "main-table-shared";
  block.title =
      fmt::format("Accuracy with all arms at one learning rate, {} in percent", average_name(shared));
  const std::optional<double> rate = study.tuning ? study.tuning->shared_lr : std::nullopt;
  block.words = fmt::format(
      "All arms at learning rate {}, the lower median of the tuned ones; the rest is as "
      "in the table before.",
      significant(rate));
  const std::vector<std::string>& skipped = shared.grades.missing();
  block.missing.insert(block.missing.end(), skipped.begin(), skipped.end());
  return block;
}

Block paired_block(const StudyView& view, std::vector<Verdict>& verdicts) {
  Block block =
      titled("paired-contrasts", fmt::format("routeopd less another arm, {}, in points", average_name(view)));
  std::vector<std::string> titles = {"against", "difference [95 %]", "seeds", "paper's effect"};
  for (int s = 1; s <= kPaperSettings; ++s) titles.push_back(fmt::format("paper {} [95 %]", s));
  titles.emplace_back("paper's mean of four [95 %]");
  TextTable table = number_table(titles);
  std::vector<std::string> absent;
  for (const std::string& arm : main_arms()) {
    if (arm == "routeopd") continue;
    const std::optional<Contrast> contrast = view.grades.contrast(arm, "routeopd");
    if (!contrast) {
      absent.push_back(arm);
      continue;
    }
    const std::optional<double> paper = paper_contrast(arm);
    Cells cells = {arm, points(contrast->difference), std::to_string(contrast->seeds),
                   paper ? name_of(outcome_of(*paper, contrast->difference)) : kDash};
    for (int s = 1; s <= kPaperSettings; ++s)
      cells.push_back(paper ? paper_interval(fmt::format("main-{}", s), arm) : kDash);
    cells.push_back(paper ? paper_interval("macro", arm) : kDash);
    table.add(std::move(cells));
    if (paper) verdicts.push_back(effect_verdict("accuracy", "routeopd", arm, *paper, contrast->difference));
  }
  say(block.words, "The paper's effect is that of its second pair, which most of its tables are about.");
  say_absent_runs(view.results, block, absent, "evaluations of the same seed of routeopd and of");
  if (!table.rows().empty()) block.table = std::move(table);
  return block;
}

}  // namespace

std::vector<Block> accuracy_blocks(const StudyView& view, std::vector<Verdict>& verdicts) {
  std::vector<Block> blocks =
      shown_blocks({main_block({view, view.results.runs, rates_of(view.results.runs).size() > 1})},
                   asked(view.results, "main"));
  if (std::optional<Block> shared = shared_block(view)) blocks.push_back(std::move(*shared));
  // Of routeopd alone there is nothing to compare.
  const bool compared = was_run(view.results, "routeopd") && view.results.runs.size() > 1;
  for (Block& block : shown_blocks({paired_block(view, verdicts)}, compared))
    blocks.push_back(std::move(block));
  for (Block& block : distance_blocks(view)) blocks.push_back(std::move(block));
  return blocks;
}

}  // namespace routeopd::study
