// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/sweep_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "routeopd/study/effects.h"
#include "routeopd/study/paper_numbers.h"
#include "routeopd/study/probe_contrast.h"

namespace routeopd::study {
namespace {

constexpr const char* kDefault = "routeopd";

// Variants of routeopd called "routeopd-LETTER…" and routeopd itself, by the value of the setting.
std::map<double, std::pair<std::string, std::string>> variants_by(const StudyResults& study, char letter) {
  std::map<double, std::pair<std::string, std::string>> sorted;  // (value's text, variant)
  const std::string prefix = fmt::format("{}-{}", kDefault, letter);
  for (const StudyRun& run : study.runs) {
    if (run.name != kDefault && !run.name.starts_with(prefix)) continue;
    const std::string own = letter == 'k' ? run.files.k : run.files.m ? std::to_string(*run.files.m) : "";
    const std::string value = run.name == kDefault ? own : run.name.substr(prefix.size());
    if (value.empty()) continue;
    const bool whole = std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
    const double place =
        whole && value.size() < 10 ? std::stod(value) : std::numeric_limits<double>::infinity();
    sorted.try_emplace(place, visible(value), run.name);
  }
  return sorted;
}

// Whether a value beside the study's own was run, or was to be.
bool is_swept(const StudyResults& study, char letter) {
  const std::string prefix = fmt::format("{}-{}", kDefault, letter);
  if (std::any_of(study.runs.begin(), study.runs.end(),
                  [&](const StudyRun& run) { return run.name.starts_with(prefix); }))
    return true;
  return asked(study, "sweeps") && !left_out(study, kDefault);
}

// What a probe of the study says of an arm; else what its runs said at their first step, which is the
// untrained student's and knows coverage and retained mass, on responses of its own.
std::optional<double> arm_number(const StudyResults& study, const std::string& name, const char* key) {
  for (const StudyProbe& probe : study.probes)
    if (const std::optional<double> found = number_at(probe.files.arm(name), {key})) return found;
  return first_metric(study, name, key);
}

// The row of a variant's step on the frozen states; null where there is none.
const Json& step_of(const StudyResults& study, const std::string& name) {
  static const Json none;
  const ProbeFiles* const probe = study.probe("support");
  return probe == nullptr ? none : probe->row(name, kStep);
}

// A value of the setting against the default, where the paper has both.
void add_default_verdict(const std::string& paper, const std::string& value, const std::string& default_value,
                         const Contrast& contrast, char letter, std::vector<Verdict>& verdicts) {
  const std::optional<double> there = paper_difference(paper, value, default_value, "avg");
  if (!there) return;
  verdicts.push_back(effect_verdict("accuracy", fmt::format("{} = {}", letter, value),
                                    fmt::format("{} = {}", letter, default_value), *there,
                                    contrast.difference));
}

// The ends of a sweep, as far as the paper has them.
class Ends {
 public:
  Ends(std::string paper, const char* column, char letter)
      : paper_(std::move(paper)), column_(column), letter_(letter) {}

  // `here` in the paper's unit.
  void add(const std::string& value, std::optional<double> here) {
    const std::optional<double> there = paper_number(paper_, value, column_);
    if (here && there)
      levels_.push_back(
          {.name = fmt::format("{} = {}", letter_, value), .paper = *there, .here = *here, .interval = {}});
  }
  void add_to(std::vector<Verdict>& verdicts, const std::string& what, int digits) const {
    if (levels_.size() > 1) verdicts.push_back(level_verdict(what, levels_.back(), levels_.front(), digits));
  }

 private:
  std::string paper_;
  const char* column_;
  char letter_;
  std::vector<Level> levels_;
};

std::optional<double> hundred(std::optional<double> fraction) {
  if (!fraction) return std::nullopt;
  return 100 * *fraction;
}

Block support_block(const StudyView& view, std::vector<Verdict>& verdicts) {
  Block block = titled("support-sweep", "Size of the support, k");
  TextTable table = number_table({"k", average_name(view) + " %", "seeds", "sd over seeds",
                                  "over the default [95 %]", "fidelity % [95 %]", "leakage % [95 %]",
                                  "student's mass in it %", "teacher's mass in it %", "relative variance",
                                  "coverage %", "paper Avg@16 %", "paper fidelity %", "paper leakage %"});
  std::string default_value;
  const auto variants = variants_by(view.results, 'k');
  for (const auto& [place, variant] : variants)
    if (variant.second == kDefault) default_value = variant.first;
  std::vector<std::pair<std::string, std::string>> known;  // (k, variant) that the paper has too
  for (const auto& [place, variant] : variants) {
    const auto& [k, name] = variant;
    const std::optional<Accuracy> accuracy = view.grades.accuracy(name);
    const std::optional<Contrast> contrast =
        name == kDefault ? std::nullopt : view.grades.contrast(kDefault, name);
    const Json& step = step_of(view.results, name);
    table.add({k, accuracy ? percent(accuracy->average.mean) : kDash,
               accuracy ? std::to_string(accuracy->per_seed.size()) : kDash,
               accuracy ? percent(spread_of(accuracy->per_seed)) : kDash,
               contrast ? points(contrast->difference) : kDash, spread_cell(step, "fidelity"),
               spread_cell(step, "leakage"), percent(arm_number(view.results, name, "student_mass"), 1),
               percent(arm_number(view.results, name, "teacher_mass"), 1),
               significant(arm_number(view.results, name, "relative_loss_variance")),
               percent(arm_number(view.results, name, "coverage"), 1), paper_cell("support", k, "avg", 2),
               paper_cell("support", k, "fidelity", 1), paper_cell("support", k, "leakage", 1)});
    if (contrast) add_default_verdict("support", k, default_value, *contrast, 'k', verdicts);
    if (paper_number("support", k, "fidelity") && !step.is_null()) known.emplace_back(k, name);
  }
  if (known.size() > 1) {
    for (const char* key : {"fidelity", "leakage"}) {
      const auto level = [&](const std::pair<std::string, std::string>& of) {
        return ProbedLevel{
            {of.second, kStep}, fmt::format("k = {}", of.first), paper_number("support", of.first, key)};
      };
      add_step_verdict(*view.results.probe("support"), key, level(known.back()), level(known.front()),
                       verdicts);
    }
  }
  if (table.rows().empty()) {
    block.missing.emplace_back("The study has no run of routeopd with a known k.");
    return block;
  }
  if (view.results.probe("support") == nullptr && asked(view.results, "mechanism"))
    block.missing.emplace_back("The study has no probe \"support\": fidelity and leakage are not known.");
  say(block.words,
      fmt::format("The paper's vocabulary has some 150,000 ids, and at k = 32 its support holds {} % of the "
                  "student's mass and {} % of the teacher's.",
                  paper_cell("retained", "32", "student_mass", 2),
                  paper_cell("retained", "32", "teacher_mass", 2)));
  block.table = std::move(table);
  return block;
}

Block pairs_block(const StudyView& view, std::vector<Verdict>& verdicts) {
  Block block = titled("pair-sweep", "Number of sampled pairs, m");
  TextTable table =
      number_table({"m", average_name(view) + " %", "seeds", "sd over seeds", "over the default [95 %]",
                    "fidelity % [95 %]", "leakage % [95 %]", "loss variance", "relative variance",
                    "coverage %", "paper Avg@16 %", "paper loss variance", "paper coverage %"});
  std::vector<std::pair<std::string, std::string>> rows;
  std::string default_value;
  for (const auto& [place, variant] : variants_by(view.results, 'm')) {
    rows.push_back(variant);
    if (variant.second == kDefault) default_value = variant.first;
  }
  if (!view.results.runs_of("exact").empty()) rows.emplace_back("all (exact)", "exact");
  Ends variance("pairs", "loss_variance", 'm'), coverage("pairs", "coverage", 'm');
  for (const auto& [m, name] : rows) {
    const std::optional<Accuracy> accuracy = view.grades.accuracy(name);
    const std::optional<Contrast> contrast =
        name == kDefault ? std::nullopt : view.grades.contrast(kDefault, name);
    table.add({m, accuracy ? percent(accuracy->average.mean) : kDash,
               accuracy ? std::to_string(accuracy->per_seed.size()) : kDash,
               accuracy ? percent(spread_of(accuracy->per_seed)) : kDash,
               contrast ? points(contrast->difference) : kDash,
               spread_cell(step_of(view.results, name), "fidelity"),
               spread_cell(step_of(view.results, name), "leakage"),
               significant(arm_number(view.results, name, "loss_variance")),
               significant(arm_number(view.results, name, "relative_loss_variance")),
               percent(arm_number(view.results, name, "coverage"), 1), paper_cell("pairs", m, "avg", 2),
               paper_cell("pairs", m, "loss_variance", 3), paper_cell("pairs", m, "coverage", 1)});
    if (contrast) add_default_verdict("pairs", m, default_value, *contrast, 'm', verdicts);
    variance.add(m, arm_number(view.results, name, "loss_variance"));
    coverage.add(m, hundred(arm_number(view.results, name, "coverage")));
  }
  variance.add_to(verdicts, "loss variance", kSignificant);
  coverage.add_to(verdicts, "coverage", 1);
  block.words = "Paired with the default on the same problems and seeds.";
  if (rows.empty())
    block.missing.emplace_back("The study has no run of routeopd with a known m.");
  else
    block.table = std::move(table);
  return block;
}

}  // namespace

std::vector<Block> sweep_blocks(const StudyView& view, std::vector<Verdict>& verdicts) {
  std::vector<Block> blocks;
  if (is_swept(view.results, 'k')) blocks.push_back(support_block(view, verdicts));
  if (is_swept(view.results, 'm')) blocks.push_back(pairs_block(view, verdicts));
  return blocks;
}

}  // namespace routeopd::study
