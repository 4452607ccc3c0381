// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_summary.h"

#include <algorithm>

#include "routeopd/formats/json_file.h"
#include "routeopd/study/effects.h"
#include "routeopd/study/study_grades.h"
#include "routeopd/study/study_view.h"
#include "routeopd/table/text_table.h"

namespace routeopd::study {
StudySummary summarize(const StudyFiles& files, const StudyResults& results) {
  StudySummary summary;
  summary.samples = files.options().samples;
  const StudyGrades grades(results);
  const auto untrained = [&](const char* name) {
    const auto accuracy = grades.accuracy(name);
    return accuracy ? accuracy->average.mean : -1;
  };
  summary.base = untrained(kBase);
  summary.teacher = untrained(kTeacher);
  std::vector<std::string> names;  // in the order of the study
  for (const StudyRun& run : results.runs)
    if (grades.has(run.name) && std::find(names.begin(), names.end(), run.name) == names.end())
      names.push_back(run.name);
  if (!names.empty()) {
    const std::vector<std::string>& arms = files.options().arms;
    const std::string wanted = arms.empty() ? kMainReference : arms.front();
    summary.reference = grades.has(wanted) ? wanted : names.front();
  }
  for (const std::string& name : names) {
    const auto contrast = grades.contrast(summary.reference, name);
    VariantSummary row{.name = name,
                       .lr = rate_of(results.runs, name),
                       .per_seed = grades.accuracy(name)->per_seed,
                       .average = 0,
                       .contrast = contrast ? contrast->difference : grade::Interval{}};
    row.average = mean_over_seeds(row.per_seed);
    summary.variants.push_back(std::move(row));
  }
  summary.rates = rates_sentence(results);
  for (const Json& note : formats::value_or_null(files.manifest(), "notes"))
    if (note.is_string()) summary.notes.push_back(note.get<std::string>());
  for (const auto& item : files.manifest()["parts"].items()) {
    if (item.value().contains("note"))
      summary.notes.push_back(fmt::format("{}: {}", item.key(), item.value()["note"].get<std::string>()));
  }
  return summary;
}

std::string summary_text(const StudySummary& summary) {
  using table::Align;
  std::string text;
  if (!summary.variants.empty()) {
    table::TextTable table({{"arm", Align::kLeft},
                            {"lr", Align::kRight},
                            {fmt::format("Avg@{} %", summary.samples), Align::kRight},
                            {"seeds", Align::kRight},
                            {fmt::format("over {} [95 %]", summary.reference), Align::kRight}});
    const auto percent = [](double share) { return fmt::format("{:.1f}", 100 * share); };
    if (summary.base >= 0) table.add({"base (untrained)", "", percent(summary.base), "", ""});
    for (const VariantSummary& row : summary.variants)
      table.add({row.name, row.lr ? fmt::format("{:g}", *row.lr) : "", percent(row.average),
                 std::to_string(row.per_seed.size()),
                 row.name == summary.reference ? "" : points(row.contrast)});
    if (summary.teacher >= 0) table.add({"teacher", "", percent(summary.teacher), "", ""});
    text = table.text();
    if (!summary.rates.empty()) text += fmt::format("\n{}\n", summary.rates);
  }
  for (const std::string& note : summary.notes) text += fmt::format("{}\n", note);
  return text;
}

Json json_of(const StudySummary& summary) {
  const auto share = [](double value) { return value < 0 ? Json() : Json(value); };
  Json arms = Json::array();
  for (const VariantSummary& row : summary.variants)
    arms.push_back({{"name", row.name},
                    {"lr", row.lr ? Json(*row.lr) : Json()},
                    {"avg", row.average},
                    {"per_seed", row.per_seed},
                    {"contrast",
                     {{"mean", row.contrast.mean}, {"low", row.contrast.low}, {"high", row.contrast.high}}}});
  return {{"reference", summary.reference},
          {"base", share(summary.base)},
          {"teacher", share(summary.teacher)},
          {"samples", summary.samples},
          {"arms", arms},
          {"rates", summary.rates},
          {"notes", summary.notes}};
}

}  // namespace routeopd::study
