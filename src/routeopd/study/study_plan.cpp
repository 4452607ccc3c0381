//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/study_plan.h"

#include <algorithm>
#include <set>

#include "routeopd/lab/cost.h"
#include "routeopd/lab/study_probes.h"
#include "routeopd/lab/study_run.h"

namespace routeopd::lab {
namespace {

bool has_suites(const StudyFiles& files) {
  return !files.pair().suites.empty();
}

bool has_untrained(const StudyFiles& files) {
  return std::all_of(kUntrained.begin(), kUntrained.end(),
                     [&](const char* name) { return files.has_eval(name); });
}

bool has_probes(const StudyFiles& files) {
  const std::vector<PlannedProbe> probes = probes_of(files.options());
  return std::all_of(probes.begin(), probes.end(),
                     [&](const PlannedProbe& planned) { return files.has_probe(planned.name); });
}

// Besides its runs.
bool has_pieces(const StudyFiles& files, const std::string& part) {
  if (part == "cost") return files.has("cost");
  if (has_suites(files) && !has_untrained(files)) return false;
  if (part != "mechanism") return true;
  return (!has_suites(files) || files.has("concentration")) && files.has("bank") && has_probes(files);
}

}  // namespace

bool is_done(const StudyFiles& files, const std::string& part) {
  if (!files.complete(part) || !has_pieces(files, part)) return false;
  const std::vector<PlannedRun> runs = runs_of(part, files.options());
  return std::all_of(runs.begin(), runs.end(), [&](const PlannedRun& run) { return files.complete(run); });
}

std::string lack_of(const StudyFiles& files, const std::string& part) {
  std::string lack;
  if (part == "cost") return lack;
  const bool mechanism = part == "mechanism";
  if (!has_suites(files))
    lack = fmt::format("no suite of problems with answers was given: there is no accuracy{}",
                       mechanism ? " by concentration" : "");
  const std::vector<PlannedProbe> probes = probes_of(files.options());
  const bool ladder = std::any_of(probes.begin(), probes.end(),
                                  [](const PlannedProbe& planned) { return planned.name == "ladder"; });
  if (mechanism && !ladder)
    lack += fmt::format("{}routeopd is not among the arms: there is no ladder of interventions",
                        lack.empty() ? "" : "; ");
  return lack;
}

StudyPace work_left(const StudyFiles& files, const std::vector<std::string>& parts) {
  const StudyOptions& options = files.options();
  StudyPace work;
  std::set<std::string> seen;
  bool untrained = false, bank = false;
  for (const std::string& part : parts) {
    if (is_done(files, part)) continue;
    if (part == "cost") {
      if (!files.has("cost")) work.add(cost_steps(options), 0);
      continue;
    }
    untrained = has_suites(files);
    for (const PlannedRun& run : runs_of(part, options)) {
      if (files.complete(run) || !seen.insert(run.name()).second) continue;
      work.add(options.steps, evaluations_of(run, options.steps));
      bank = bank || run.every > 0;
    }
    if (part != "mechanism") continue;
    bank = true;
    if (has_suites(files) && !files.has("concentration")) work.add(0, 1);
    for (const PlannedProbe& planned : probes_of(options))
      if (!files.has_probe(planned.name)) work.add(0, 0, planned.rows());
  }
  for (const char* name : kUntrained)
    if (untrained && !files.has_eval(name)) work.add(0, 1);
  if (bank && !files.has("bank")) work.add(0, 0, 1);
  return work;
}

}  // namespace routeopd::lab
