// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "routeopd/report/arms.h"
#include "routeopd/study/paper_numbers.h"

namespace routeopd::study {
namespace {

std::optional<double> metric_mean(const StudyResults& study, const std::string& name, const char* key,
                                  bool last) {
  std::vector<std::optional<double>> values;
  for (const StudyRun* run : study.runs_of(name)) {
    const std::vector<StepMetrics>& steps = run->files.metrics;
    if (run->complete && !steps.empty())
      values.push_back(metric_named(key, last ? steps.back() : steps.front()));
  }
  return mean_of(values);
}

}  // namespace

std::vector<std::string> main_arms() {
  std::vector<std::string> names;
  for (const report::Arm& arm : report::kArms)
    if (arm.main) names.emplace_back(arm.name);
  return names;
}

std::vector<std::string> own_arms() {
  std::vector<std::string> names;
  for (const report::Arm& arm : report::kArms)
    if (arm.component == report::Component::kOurs) names.emplace_back(arm.name);
  return names;
}

std::vector<std::string> arm_and_crossings(const std::string& name) {
  std::vector<std::string> names = {name};
  for (const report::Arm& arm : report::kArms)
    if (arm.preset() == name && arm.name != name) names.emplace_back(arm.name);
  return names;
}

std::vector<std::string> paper_rows_and_crossings(std::string_view id) {
  std::vector<std::string> names;
  for (const PaperRow& row : paper_table(id).rows)
    for (const std::string& name : arm_and_crossings(row.name)) names.push_back(name);
  return names;
}

std::vector<std::string> main_arms_and_untrained() {
  std::vector<std::string> names = main_arms();
  names.insert(names.begin(), kBase);
  names.emplace_back(kTeacher);
  return names;
}

TextTable number_table(const std::vector<std::string>& titles) {
  std::vector<TextTable::Column> columns;
  for (const std::string& title : titles)
    columns.push_back({title, columns.empty() ? Align::kLeft : Align::kRight});
  return TextTable(std::move(columns));
}

std::string average_name(const StudyView& view) {
  return fmt::format("Avg@{}", view.grades.samples());
}

std::optional<double> mean_of(const std::vector<std::optional<double>>& values) {
  double sum = 0, count = 0;
  for (const std::optional<double>& value : values) {
    if (!value) continue;
    sum += *value;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

std::optional<double> spread_of(const std::vector<double>& values) {
  if (values.size() < 2) return std::nullopt;
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / (count - 1));
}

std::string paper_cell(std::string_view id, std::string_view row, std::string_view column, int digits) {
  return number(paper_number(id, row, column), digits);
}

std::optional<double> paper_difference(std::string_view id, std::string_view row, std::string_view reference,
                                       std::string_view column) {
  const std::optional<double> first = paper_number(id, row, column),
                              second = paper_number(id, reference, column);
  if (!first || !second) return std::nullopt;
  return *first - *second;
}

std::optional<double> paper_contrast(const std::string& arm) {
  const std::vector<std::string>& compared = paper_table("paired").columns;
  if (std::find(compared.begin(), compared.end(), arm) == compared.end()) return std::nullopt;
  return paper_number("paired", "main-2", arm);
}

std::string paper_interval(const std::string& row, const std::string& arm) {
  const std::optional<double> mean = paper_number("paired", row, arm);
  return fmt::format("{} [{}, {}]", signed_number(mean, 2),
                     signed_number(paper_number("paired", row, arm + " low"), 2),
                     signed_number(paper_number("paired", row, arm + " high"), 2));
}

void say(std::string& words, std::string_view sentence) {
  if (!words.empty() && !sentence.empty()) words += ' ';
  words += sentence;
}

void say_absent(Block& block, const std::vector<std::string>& names, std::string_view what) {
  if (!names.empty()) block.missing.push_back(fmt::format("No {}: {}.", what, listed(names)));
}

bool asked(const StudyResults& study, std::string_view part) {
  if (!study.manifest.is_object()) return false;
  const auto parts = study.manifest.find("parts");
  return parts != study.manifest.end() && parts->is_object() && parts->contains(part);
}

bool left_out(const StudyResults& study, std::string_view name) {
  const Json options = study.manifest.is_object() ? study.manifest.value("options", Json()) : Json();
  const Json& arms = list_at(options, "arms");
  return !arms.empty() && std::find(arms.begin(), arms.end(), Json(name)) == arms.end();
}

bool was_run(const StudyResults& study, const std::string& name) {
  if (name != kBase && name != kTeacher) return !study.runs_of(name).empty();
  const Json evals = study.manifest.is_object() ? study.manifest.value("evals", Json()) : Json();
  return !text_at(evals, name.c_str()).empty();
}

std::vector<Block> shown_blocks(std::vector<Block> blocks, bool asked_for) {
  if (!asked_for)
    std::erase_if(blocks, [](const Block& block) { return !block.table && block.chart.is_null(); });
  return blocks;
}

void say_absent_runs(const StudyResults& study, Block& block, std::vector<std::string> names,
                     std::string_view what) {
  std::erase_if(names, [&](const std::string& name) { return !was_run(study, name); });
  say_absent(block, names, what);
}

std::vector<std::string> asked_arms(const StudyResults& study) {
  const Json& manifest = study.manifest;
  const Json options = manifest.is_object() ? manifest.value("options", Json()) : Json();
  std::vector<std::string> names;
  for (const Json& arm : list_at(options, "arms"))
    if (arm.is_string()) names.push_back(arm.get<std::string>());
  return names.empty() ? main_arms() : names;
}

std::vector<std::string> compared_names(const StudyView& view) {
  std::vector<std::string> names = asked_arms(view.results);
  std::erase_if(names, [&](const std::string& name) { return !view.grades.has(name); });
  return names;
}

std::string main_reference(const StudyView& view) {
  if (view.grades.has(kMainReference)) return kMainReference;
  const std::vector<std::string> names = compared_names(view);
  return names.empty() ? "" : names.front();
}

std::optional<double> rate_of(const std::vector<StudyRun>& runs, const std::string& name) {
  std::optional<double> found;
  for (const StudyRun& run : runs) {
    if (run.name != name) continue;
    std::optional<double> own = number_at(run.files.recipe, {"optimizer", "lr"});
    if (!own) own = run.lr;
    if (!own || (found && *found != *own)) return std::nullopt;
    found = own;
  }
  return found;
}

std::vector<double> rates_of(const std::vector<StudyRun>& runs) {
  std::vector<double> rates;
  for (const std::string& name : main_arms())
    if (const std::optional<double> rate = rate_of(runs, name)) rates.push_back(*rate);
  std::sort(rates.begin(), rates.end());
  rates.erase(std::unique(rates.begin(), rates.end()), rates.end());
  return rates;
}

std::size_t most_seeds(const std::vector<StudyRun>& runs) {
  std::map<std::string, std::size_t> seeds;
  std::size_t most = 0;
  for (const StudyRun& run : runs) most = std::max(most, ++seeds[run.name]);
  return most;
}

std::string rates_sentence(const StudyResults& study) {
  const std::vector<double> rates = rates_of(study.runs);
  if (rates.empty()) return "";
  const bool one = rates.size() == 1;
  if (!study.tuning)
    return one ? fmt::format("All arms at learning rate {}.", significant(rates.front()))
               : "Each arm at its own learning rate.";
  return fmt::format(
      "Each arm at its own learning rate, chosen on validation problems that are neither trained on nor held "
      "out{}.",
      one ? fmt::format("; here {} for all of them", significant(rates.front())) : "");
}

void say_notes(const StudyResults& study, std::string& words) {
  for (const Json& note : list_at(study.manifest, "notes"))
    if (note.is_string()) say(words, fmt::format("Note: {}.", visible(note.get<std::string>())));
}

std::string seeds_sentence(const StudyView& view) {
  const std::size_t most = most_seeds(view.results.runs);
  return fmt::format(
      "Intervals are 95 % of a paired bootstrap over {} problems of {} samples, {}; they say nothing of how "
      "{} would fare.",
      view.grades.problems(), view.grades.samples(),
      most == 1 ? std::string("one training seed") : fmt::format("up to {} training seeds pooled", most),
      most == 1 ? "another seed" : "other seeds");
}

std::optional<double> last_metric(const StudyResults& study, const std::string& name, const char* key) {
  return metric_mean(study, name, key, true);
}

std::optional<double> first_metric(const StudyResults& study, const std::string& name, const char* key) {
  return metric_mean(study, name, key, false);
}

std::vector<std::optional<double>> seed_differences(
    const StudyResults& study, const std::string& first, const std::string& second,
    const std::function<std::optional<double>(const StudyRun&)>& value) {
  std::vector<std::optional<double>> differences;
  for (const StudyRun* a : study.runs_of(first)) {
    for (const StudyRun* b : study.runs_of(second)) {
      if (a->seed != b->seed || !a->complete || !b->complete) continue;
      const std::optional<double> mine = value(*a), other = value(*b);
      if (mine && other) differences.emplace_back(*mine - *other);
    }
  }
  return differences;
}

}  // namespace routeopd::study
