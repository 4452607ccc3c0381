// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/macro_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "routeopd/study/contrast_chart.h"
#include "routeopd/study/paper_numbers.h"
#include "routeopd/study/study_answer.h"

namespace routeopd::study {
namespace {

constexpr const char* kMacro = "mean over studies";
constexpr const char* kMacroSubject = "routeopd";

// Numbers of the suites of all studies: equal ones have one number, and so share their draws.
class SuiteNumbers {
 public:
  std::uint32_t of(const SuiteIdentity& suite) {
    const auto found = std::find(known_.begin(), known_.end(), suite);
    if (found != known_.end()) return static_cast<std::uint32_t>(found - known_.begin());
    known_.push_back(suite);
    return static_cast<std::uint32_t>(known_.size() - 1);
  }

 private:
  std::vector<SuiteIdentity> known_;
};

// grades(view): both sides' grades, suite by suite; none where the study lacks one.
template <class Grades>
std::optional<grade::Interval> macro_mean(const std::vector<StudyView>& studies, const Grades& grades) {
  SuiteNumbers numbers;
  std::deque<PairedGrades> held;  // what the terms point to
  std::vector<grade::WeightedContrast> terms;
  for (const StudyView& view : studies) {
    std::optional<PairedGrades> own = grades(view);
    if (!own) return std::nullopt;
    const PairedGrades& kept = held.emplace_back(std::move(*own));
    const std::vector<SuiteIdentity> suites = view.grades.identities();
    for (std::size_t s = 0; s < kept.first.size(); ++s)
      terms.push_back({.a = &kept.first[s],
                       .b = &kept.second[s],
                       .suite = numbers.of(suites[s]),
                       .weight = 1 / static_cast<double>(kept.first.size())});
  }
  if (terms.empty()) return std::nullopt;
  return grade::weighted_contrast(terms, grade::Bootstrap{});
}

std::string setting_name(const StudyView& view) {
  return visible(view.results.directory.string());
}

// Arms that every study has, in the order of the first.
std::vector<std::string> common_arms(const std::vector<StudyView>& studies) {
  std::vector<std::string> names = compared_names(studies.front());
  std::erase_if(names, [&](const std::string& name) {
    return std::any_of(studies.begin(), studies.end(),
                       [&](const StudyView& view) { return !view.grades.has(name); });
  });
  return names;
}

std::string common_reference(const std::vector<std::string>& names) {
  const bool usual = std::find(names.begin(), names.end(), kMainReference) != names.end();
  return usual ? kMainReference : names.empty() ? "" : names.front();
}

Block macro_table(const std::vector<StudyView>& studies, const std::vector<std::string>& arms,
                  const std::string& reference) {
  Block block = titled("macro-table", "Accuracy by setting, and the mean over settings");
  std::vector<std::string> names = arms;
  names.insert(names.begin(), kBase);
  names.emplace_back(kTeacher);
  TextTable table({{"setting", Align::kLeft},
                   {"arm", Align::kLeft},
                   {"learning rate"},
                   {"Avg@n %"},
                   {"95 % interval"},
                   {"seeds"},
                   {fmt::format("over {} [95 %]", reference)}});
  const auto add = [&](const std::string& setting, const std::string& name, const std::string& rate,
                       const grade::Interval& average, const std::string& seeds,
                       const std::optional<grade::Interval>& contrast) {
    table.add({setting, name == kBase ? "base (untrained)" : name, rate, percent(average.mean),
               interval(average.low, average.high), seeds, contrast ? points(*contrast) : kDash});
  };
  const auto is_compared = [&](const std::string& name) {
    return name != reference && name != kBase && name != kTeacher;
  };
  for (const StudyView& view : studies) {
    for (const std::string& name : names) {
      const std::optional<Accuracy> accuracy = view.grades.accuracy(name);
      if (!accuracy) continue;
      const std::optional<Contrast> contrast =
          is_compared(name) ? view.grades.contrast(reference, name) : std::nullopt;
      const bool trained = name != kBase && name != kTeacher;
      add(setting_name(view), name, significant(rate_of(view.results.runs, name)), accuracy->average,
          trained ? std::to_string(accuracy->per_seed.size()) : kDash,
          contrast ? std::optional(contrast->difference) : std::nullopt);
    }
  }
  for (const std::string& name : names) {
    const std::optional<grade::Interval> average = macro_average(studies, name);
    if (average)
      add(kMacro, name, kDash, *average, kDash,
          is_compared(name) ? macro_contrast(studies, reference, name) : std::nullopt);
  }
  block.words =
      "Every study has the same weight in the mean. Its intervals draw problems within each study, which "
      "stays as it is: they say nothing of other settings.";
  block.table = std::move(table);
  return block;
}

Block macro_contrasts(const std::vector<StudyView>& studies, const std::vector<std::string>& arms,
                      const std::string& reference) {
  Block block = titled("macro-contrasts", fmt::format("Accuracy against {}, by setting", visible(reference)));
  std::vector<ContrastPoint> all;
  const auto add = [&](const std::string& panel, const std::string& name,
                       const std::optional<grade::Interval>& difference) {
    if (difference)
      all.push_back({.block = panel,
                     .name = name,
                     .contrast = {100 * difference->mean, 100 * difference->low, 100 * difference->high},
                     .paper = {}});
  };
  for (const StudyView& view : studies) {
    for (const std::string& name : arms) {
      const std::optional<Contrast> contrast =
          name == reference ? std::nullopt : view.grades.contrast(reference, name);
      add(setting_name(view), name, contrast ? std::optional(contrast->difference) : std::nullopt);
    }
  }
  for (const std::string& name : arms)
    if (name != reference) add(kMacro, name, macro_contrast(studies, reference, name));
  if (all.empty()) return block;
  block.words = "Paired differences with their 95 % intervals, a panel a study, and the mean over studies.";
  draw_contrasts(all,
                 {.axis = fmt::format("Avg@n minus {}'s (points)", visible(reference)),
                  .description = "Points with 95 % intervals, a panel a study and one for their mean: the "
                                 "accuracy of each arm minus that of the reference, in percentage points."},
                 block);
  return block;
}

// routeopd less each other arm: the row that the paper's macro average has.
Block macro_paired(const std::vector<StudyView>& studies, const std::vector<std::string>& arms) {
  Block block = titled("macro-paired", "routeopd less another arm, by setting and in the mean, in points");
  std::vector<std::string> titles = {"against"};
  for (const StudyView& view : studies) titles.push_back(setting_name(view) + " [95 %]");
  for (const char* title : {"mean over studies [95 %]", "paper's mean of four [95 %]", "paper's effect"})
    titles.emplace_back(title);
  TextTable table = number_table(titles);
  for (const std::string& arm : arms) {
    if (arm == kMacroSubject) continue;
    Cells cells = {arm};
    for (const StudyView& view : studies) {
      const std::optional<Contrast> contrast = view.grades.contrast(arm, kMacroSubject);
      cells.push_back(contrast ? points(contrast->difference) : kDash);
    }
    const std::optional<grade::Interval> mean = macro_contrast(studies, arm, kMacroSubject);
    const std::optional<double> paper =
        paper_contrast(arm) ? paper_number("paired", "macro", arm) : std::nullopt;
    cells.push_back(mean ? points(*mean) : kDash);
    cells.push_back(paper ? paper_interval("macro", arm) : kDash);
    cells.push_back(paper && mean ? name_of(outcome_of(*paper, *mean)) : kDash);
    table.add(std::move(cells));
  }
  if (table.rows().empty()) return block;
  block.words = "Paired on problem, sample and seed within each study.";
  block.table = std::move(table);
  return block;
}

}  // namespace

std::optional<grade::Interval> macro_contrast(const std::vector<StudyView>& studies, const std::string& first,
                                              const std::string& second) {
  return macro_mean(studies, [&](const StudyView& view) { return view.grades.paired(first, second); });
}

std::optional<grade::Interval> macro_average(const std::vector<StudyView>& studies, const std::string& name) {
  // An average is its difference from one who is always wrong.
  return macro_mean(studies, [&](const StudyView& view) {
    std::optional<PairedGrades> grades = view.grades.paired(name, name);
    if (grades)
      for (grade::Correctness& suite : grades->first)
        std::fill(suite.correct_PS.begin(), suite.correct_PS.end(), std::uint8_t{0});
    return grades;
  });
}

MacroReport macro_report(const std::vector<StudyView>& studies) {
  MacroReport report;
  report.section = {.title = "In short", .blocks = {}, .leads = true};
  const std::vector<std::string> arms = common_arms(studies);
  if (arms.empty()) {
    report.answer = "The studies have no arm in common that can be read: nothing is compared over them.";
    return report;
  }
  const std::string reference = common_reference(arms);
  std::vector<Difference> differences;
  const bool has_subject = std::find(arms.begin(), arms.end(), kMacroSubject) != arms.end();
  std::vector<std::string> others;
  for (const std::string& arm : arms) {
    if (arm == (has_subject ? kMacroSubject : reference)) continue;
    const std::optional<grade::Interval> mean =
        has_subject ? macro_contrast(studies, arm, kMacroSubject) : macro_contrast(studies, reference, arm);
    if (!mean) continue;
    differences.push_back({arm, *mean});
    others.push_back(arm);
  }
  const std::string basis = fmt::format(
      "he intervals are 95 %, paired, of the mean over {} studies with problems drawn within each, and say "
      "nothing of other seeds, tasks or models.",
      studies.size());
  if (!differences.empty()) {
    report.question = has_subject ? fmt::format("Does {} end above {} in the mean over {} studies?",
                                                kMacroSubject, listed(others), studies.size())
                                  : fmt::format("How do {} compare with {} in the mean over {} studies?",
                                                listed(others), reference, studies.size());
    report.answer = has_subject ? answer_words(kMacroSubject, "points of accuracy", differences, basis)
                                : fmt::format("{}. T{}", order_words(reference, differences), basis);
  }
  for (Block& block :
       shown_blocks({macro_contrasts(studies, arms, reference), macro_table(studies, arms, reference),
                     has_subject ? macro_paired(studies, arms) : Block{}},
                    false))
    report.section.blocks.push_back(std::move(block));
  return report;
}

}  // namespace routeopd::study
