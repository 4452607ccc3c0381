// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/distance_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "routeopd/formats/json_file.h"
#include "routeopd/study/distances.h"

namespace routeopd::study {
namespace {

constexpr int kDigits = 4;

std::string level_cell(const std::optional<grade::Interval>& level) {
  if (!level) return kDash;
  return fmt::format("{} [{}, {}]", number(level->mean, kDigits), number(level->low, kDigits),
                     number(level->high, kDigits));
}

std::string contrast_cell(const std::optional<grade::Interval>& difference) {
  if (!difference) return kDash;
  return fmt::format("{} [{}, {}]", signed_number(difference->mean, kDigits),
                     signed_number(difference->low, kDigits), signed_number(difference->high, kDigits));
}

// The arms with distances, what the others are compared with first.
std::vector<std::string> measured_arms(const StudyResults& study) {
  std::vector<std::string> names = asked_arms(study);
  std::erase_if(
      names, [&](const std::string& name) { return !mean_distance(study.runs_of(name), Distance::kMass); });
  const auto reference = std::find(names.begin(), names.end(), kMainReference);
  if (reference != names.end()) std::rotate(names.begin(), reference, reference + 1);
  return names;
}

// Where the states of the bank come from (LoadedPair::bank_prompts).
bool judged(const StudyResults& study) {
  const Json& pair = formats::value_or_null(study.manifest, "pair");
  return !formats::value_or_null(pair, "suites").empty();
}

}  // namespace

std::vector<Block> distance_blocks(const StudyView& view) {
  const StudyResults& study = view.results;
  const std::vector<std::string> names = measured_arms(study);
  if (names.empty() && !study.base_distances) return {};
  const std::string reference_name = names.empty() ? "" : names.front();
  Block block = titled("distance", "Distance to the teacher on frozen states of the starting student");
  std::vector<std::string> titles = {"arm", "mismatch mass [95 %]", "forward KL [95 %]", "reverse KL [95 %]"};
  if (!names.empty()) {
    for (const char* const what : {"mass", "forward KL", "reverse KL"})
      titles.push_back(fmt::format("{} over {} [95 %]", what, reference_name));
  }
  TextTable table = number_table(titles);
  const std::vector<const StudyRun*> reference = study.runs_of(reference_name);
  const auto add = [&](const std::string& name, const std::vector<const StudyRun*>& runs, bool compared) {
    Cells cells = {name};
    bool any = false;
    for (const Distance kind : {Distance::kMass, Distance::kForwardKl, Distance::kReverseKl}) {
      const std::optional<grade::Interval> level = mean_distance(runs, kind);
      any = any || level;
      cells.push_back(level_cell(level));
    }
    if (!names.empty()) {
      for (const Distance kind : {Distance::kMass, Distance::kForwardKl, Distance::kReverseKl})
        cells.push_back(compared ? contrast_cell(distance_contrast(reference, runs, kind)) : kDash);
    }
    if (any) table.add(std::move(cells));
  };
  if (study.base_distances) {
    StudyRun base;
    base.distances = *study.base_distances;
    add("base (untrained)", {&base}, false);
  }
  for (const std::string& name : names) add(name, study.runs_of(name), name != reference_name);
  if (table.rows().empty()) return {};
  block.table = std::move(table);
  block.words = fmt::format(
      "Means per state, KL in nats over the whole vocabulary, mass on the frozen supports; seeds pooled. "
      "Intervals draw whole responses. The states are those that the starting student visits on {}: they say "
      "how far an arm moved the student there, not how it fares on states of its own.",
      judged(study) ? "held-out problems" : "prompts that it is trained on");
  return {block};
}

}  // namespace routeopd::study
