// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/distance_tables.h"

#include <fmt/format.h>

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

}  // namespace

std::vector<Block> distance_blocks(const StudyView& view) {
  const StudyResults& study = view.results;
  Block block = titled("distance", "Distance to the teacher on held-out states of the starting student");
  TextTable table = number_table({"arm", "mismatch mass [95 %]", "forward KL [95 %]", "reverse KL [95 %]",
                                  fmt::format("mass over {} [95 %]", kMainReference),
                                  fmt::format("forward KL over {} [95 %]", kMainReference),
                                  fmt::format("reverse KL over {} [95 %]", kMainReference)});
  const std::vector<const StudyRun*> reference = study.runs_of(kMainReference);
  const auto add = [&](const std::string& name, const std::vector<const StudyRun*>& runs, bool compared) {
    Cells cells = {name};
    bool any = false;
    for (const Distance kind : {Distance::kMass, Distance::kForwardKl, Distance::kReverseKl}) {
      const std::optional<grade::Interval> level = mean_distance(runs, kind);
      any = any || level;
      cells.push_back(level_cell(level));
    }
    for (const Distance kind : {Distance::kMass, Distance::kForwardKl, Distance::kReverseKl})
      cells.push_back(compared ? contrast_cell(distance_contrast(reference, runs, kind)) : kDash);
    if (any) table.add(std::move(cells));
  };
  if (study.base_distances) {
    StudyRun base;
    base.distances = *study.base_distances;
    add("base (untrained)", {&base}, false);
  }
  for (const std::string& name : main_arms()) add(name, study.runs_of(name), name != kMainReference);
  if (table.rows().empty()) return {};
  block.table = std::move(table);
  block.words =
      "Means per state, KL in nats over the whole vocabulary, mass on the frozen supports; seeds pooled. "
      "Intervals "
      "draw whole responses. The states are those that the starting student visits: they say how far an arm "
      "moved "
      "the student there, not how it fares on states of its own.";
  return {block};
}

}  // namespace routeopd::study
