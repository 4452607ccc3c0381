// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_report.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "routeopd/report/directory_facts.h"
#include "routeopd/report/tolerant_files.h"
#include "routeopd/study/macro_tables.h"
#include "routeopd/study/main_contrasts.h"
#include "routeopd/study/study_answer.h"
#include "routeopd/study/study_figures.h"
#include "routeopd/study/study_files.h"
#include "routeopd/study/study_suites.h"
#include "routeopd/study/study_tables.h"
#include "routeopd/study/study_view.h"
#include "routeopd/study/tuning_figure.h"

namespace routeopd::study {
namespace {

// "main, ablations (not complete)", with what a part lacks and why.
std::string parts_text(const Json& parts) {
  std::string text;
  if (!parts.is_object()) return text;
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    const bool complete = report::at_or_null(part.value(), "complete") == true;
    const std::string note = report::text_at(part.value(), "note").substr(0, 200);
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", part.key(), complete ? "" : " (not complete)",
                        note.empty() ? "" : fmt::format(" ({})", note));
  }
  return text;
}

std::vector<report::Fact> study_facts(const StudyResults& study) {
  const Json& manifest = study.manifest;
  return {{"kind", "study"},
          {"student", report::text_in(manifest, "pair", "student")},
          {"teacher", report::text_in(manifest, "pair", "teacher")},
          {"options", report::compact(report::at_or_null(manifest, "options"))},
          {"machine", report::compact(report::at_or_null(manifest, "machine"))},
          {"parts", parts_text(report::at_or_null(manifest, "parts"))},
          {"runs", std::to_string(study.runs.size())},
          {"newest file", report::newest_date(study.directory.string())}};
}

// The figures that carry the answer, and the verdicts.
report::Section lead_section(const StudyView& view, const std::vector<Verdict>& verdicts) {
  report::Section lead{.title = "In short", .blocks = {}, .leads = true};
  const auto add = [&](report::Block block, bool asked_for) {
    if (asked_for || !block.chart.is_null() || block.table) lead.blocks.push_back(std::move(block));
  };
  add(tuning_figure(view.results), asked(view.results, "tune"));
  add(main_contrasts(view), false);
  add(verdict_table(verdicts), false);
  return lead;
}

// Each of the suites is one of some study's.
void check_suites(const std::vector<std::string>& suites, const std::vector<StudyResults>& studies) {
  std::set<std::string> known;
  for (const StudyResults& study : studies)
    for (const std::string& suite : suites_of(study)) known.insert(suite);
  for (const std::string& suite : suites)
    if (!known.contains(suite))
      throw UserError("--suite {}: expected a suite of the studies ({})", suite,
                      known.empty() ? "they have none" : table::listed({known.begin(), known.end()}));
}

}  // namespace

report::Chapter study_chapter(const StudyResults& study, const std::vector<std::string>& suites) {
  const StudyView view{study, StudyGrades(study)};
  StudyTables tables = study_tables(study, suites);
  report::Chapter chapter{.facts = study_facts(study),
                          .question = study_question(view),
                          .verdict = study_answer(view),
                          .lead = lead_section(view, tables.verdicts),
                          .sections = {},
                          .missing = study.all_missing()};
  if (report::Section figures = study_figures(study, suites); !figures.blocks.empty())
    chapter.sections.push_back(std::move(figures));
  for (report::Section& section : tables.sections) chapter.sections.push_back(std::move(section));
  return chapter;
}

report::Report study_report(const StudyResults& study, std::string title) {
  const std::string directory = study.directory.string();
  report::Chapter chapter = study_chapter(study);
  report::Report report{.title = title.empty() ? fmt::format("Study {}", directory) : std::move(title),
                        .verdict = std::move(chapter.verdict),
                        .sections = {},
                        .missing = std::move(chapter.missing),
                        .question = std::move(chapter.question)};
  if (!chapter.lead.blocks.empty()) report.sections.push_back(std::move(chapter.lead));
  report.sections.push_back(report::facts_section({{directory, std::move(chapter.facts)}}));
  for (report::Section& section : chapter.sections) report.sections.push_back(std::move(section));
  return report;
}

report::StudyReader study_reader(const std::vector<std::string>& suites) {
  return {.manifest = StudyFiles::kManifest,
          .read = [suites](const std::vector<std::string>& directories,
                           const std::vector<report::JudgeFiles>& judges) {
            std::vector<StudyResults> studies;
            for (const std::string& directory : directories) {
              StudyResults& study = studies.emplace_back(read_results(directory));
              for (report::EvalFiles* eval : study.evals()) report::use_judgements(judges, *eval);
            }
            check_suites(suites, studies);
            report::StudyChapters all;
            std::vector<StudyView> views;
            for (const StudyResults& study : studies) {
              all.chapters.push_back(study_chapter(study, suites));
              views.push_back({study, StudyGrades(study)});
            }
            if (studies.size() < 2) return all;
            MacroReport macro = macro_report(views);
            all.question = std::move(macro.question);
            all.verdict = std::move(macro.answer);
            all.lead = std::move(macro.section);
            return all;
          }};
}

}  // namespace routeopd::study
