// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_plan.h"

#include <algorithm>
#include <set>

#include "routeopd/study/cost.h"
#include "routeopd/study/distances.h"
#include "routeopd/study/study_probes.h"
#include "routeopd/study/study_run.h"

namespace routeopd::study {
namespace {

bool has_suites(const StudyFiles& files) {
  return !files.pair().suites.empty();
}

bool has_untrained(const StudyFiles& files) {
  return std::all_of(kUntrained.begin(), kUntrained.end(),
                     [&](const char* name) { return files.has_eval(name); });
}

// A rate that was given, or a record that was, needs no tuning.
bool has_rates(const StudyFiles& files) {
  return !files.options().tuned() || files.has(StudyFiles::kTuning);
}

bool has_probes(const StudyFiles& files) {
  const std::vector<PlannedProbe> probes = probes_of(files.options());
  return std::all_of(probes.begin(), probes.end(),
                     [&](const PlannedProbe& planned) { return files.has_probe(planned.name); });
}

// Runs of the part whose distance to the teacher was not measured, the starting student counting as one.
std::int64_t distances_left(const StudyFiles& files, const Part& part) {
  if (!part.distances) return 0;
  const auto missing = [&](const std::string& run_path) {
    std::error_code ignored;
    return !std::filesystem::exists(files.path() / distance_path(run_path), ignored);
  };
  std::int64_t left = missing(kBase) ? 1 : 0;
  for (const PlannedRun& run : distance_runs(part, files.options()))
    if (missing(StudyFiles::run_path(run))) ++left;
  return left;
}

// Besides its runs.
bool has_pieces(const StudyFiles& files, const Part& part) {
  if (part.tune && !has_rates(files)) return false;
  if (part.untrained && has_suites(files) && !has_untrained(files)) return false;
  if (part.concentration && has_suites(files) && !files.has(StudyFiles::kConcentration)) return false;
  if (part.probes && !(files.has(StudyFiles::kBank) && has_probes(files))) return false;
  if (distances_left(files, part) > 0) return false;
  return !part.cost || files.has(StudyFiles::kCost);
}

}  // namespace

void check_parts(const std::vector<std::string>& parts, bool tune, const StudyPair& pair,
                 const StudyOptions& options, const std::optional<Rates>& taken) {
  if (tune && taken)
    throw UserError("tune: the learning rates are those of {}; leave --rates out", options.rates);
  if (tune && !options.tuned())
    throw UserError("tune: every arm has the learning rate {}; {}", *options.lr,
                    !pair.validation.empty() ? "leave --lr out"
                    : pair.family.empty()
                        ? "name problems to choose one by with --validation FILE"
                        : "its laboratory has no validation.jsonl, which `lab make` writes");
  if (!options.tuned()) return;
  Rates rates = taken.value_or(Rates{});
  if (!taken) {
    for (const std::string& arm : tuned_arms(options)) rates.own[arm] = 0;  // to be chosen
  }
  for (const std::string& name : parts) {
    for (const PlannedRun& run : runs_of(part_named(name), options))
      if (!rates.chosen_for(run.variant))
        throw UserError(
            "{}: no learning rate is chosen for it, nor for an arm that it takes one from; {}, or leave it "
            "out with --arms",
            run.variant.name, taken ? "name another record with --rates" : "name it in --tune-arms");
  }
}

bool is_done(const StudyFiles& files, const std::string& name) {
  const Part& part = part_named(name);
  if (!files.complete(name) || !has_pieces(files, part)) return false;
  const std::vector<PlannedRun> runs = runs_of(part, files.options());
  return std::all_of(runs.begin(), runs.end(), [&](const PlannedRun& run) { return files.complete(run); });
}

std::string lack_of(const StudyFiles& files, const std::string& name) {
  const Part& part = part_named(name);
  std::string lack;
  if (part.untrained && !has_suites(files))
    lack = fmt::format("no suite of problems with answers was given: there is no accuracy{}",
                       part.concentration ? " by concentration" : "");
  const std::vector<PlannedProbe> probes = probes_of(files.options());
  const bool ladder = std::any_of(probes.begin(), probes.end(),
                                  [](const PlannedProbe& planned) { return planned.name == "ladder"; });
  if (part.probes && !ladder)
    lack += fmt::format("{}routeopd is not among the arms: there is no ladder of interventions",
                        lack.empty() ? "" : "; ");
  return lack;
}

std::vector<std::string> with_tuning(const StudyFiles& files, std::vector<std::string> parts) {
  const auto is_tuning = [](const std::string& name) { return part_named(name).tune; };
  const auto trains = [](const std::string& name) {
    const Part& part = part_named(name);
    return !part.families.empty() || !part.beside.empty() || part.probes;
  };
  // Rates that were given, or taken from another study's record.
  if (!files.options().tuned() || !files.options().rates.empty()) {
    std::erase_if(parts, is_tuning);
  } else if (!has_rates(files) && std::any_of(parts.begin(), parts.end(), trains) &&
             std::none_of(parts.begin(), parts.end(), is_tuning)) {
    for (const Part& part : all_parts())
      if (part.tune) parts.insert(parts.begin(), part.name);
  }
  return parts;
}

StudyPace work_left(const StudyFiles& files, const std::vector<std::string>& parts) {
  const StudyOptions& options = files.options();
  StudyPace work;
  std::set<std::string> seen;
  bool untrained = false, bank = false;
  for (const std::string& name : parts) {
    if (is_done(files, name)) continue;
    const Part& part = part_named(name);
    untrained = untrained || (part.untrained && has_suites(files));
    if (part.tune && !has_rates(files)) {
      const std::vector<Trial> done = read_trials(files.place_of(StudyFiles::kTuning), options);
      const std::int64_t trials = fewest_trials(options, done) - std::ssize(done);
      work.add(trials * options.trial_steps(), trials);
    }
    for (const PlannedRun& run : runs_of(part, options)) {
      if (files.complete(run) || !seen.insert(run.name()).second) continue;
      work.add(options.steps, evaluations_of(run, options.steps));
      bank = bank || run.every > 0;
    }
    if (part.concentration && has_suites(files) && !files.has(StudyFiles::kConcentration)) work.add(0, 1);
    if (part.cost && !files.has(StudyFiles::kCost)) work.add(cost_steps(options), 0);
    if (const std::int64_t rows = distances_left(files, part); rows > 0) {
      work.add(0, 0, rows);
      bank = true;
    }
    if (!part.probes) continue;
    bank = true;
    for (const PlannedProbe& planned : probes_of(options))
      if (!files.has_probe(planned.name)) work.add(0, 0, planned.rows());
  }
  for (const char* name : kUntrained)
    if (untrained && !files.has_eval(name)) work.add(0, 1);
  if (bank && !files.has(StudyFiles::kBank)) work.add(0, 0, 1);
  return work;
}

}  // namespace routeopd::study
