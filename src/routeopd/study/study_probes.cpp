// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_probes.h"

#include <algorithm>
#include <span>

#include "routeopd/base/files.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/formats/weight_files.h"
#include "routeopd/probe/bank_file.h"
#include "routeopd/probe/run_probe.h"
#include "routeopd/probe/step_size.h"
#include "routeopd/study/study_pace.h"

namespace routeopd::study {
namespace {

namespace fs = std::filesystem;
using probe::Intervention;

// Prompts whose answers the states are chosen from, to begin with: responses of the laboratory have some 25
// states.
constexpr std::size_t kBankPrompts = 128;
// States that are enough for a mean of targets; every rate of every arm rescores them.
constexpr std::int64_t kTunedStates = 256;

std::vector<probe::ProbeArm> arms_of(const StudyOptions& options, const std::vector<Family>& families,
                                     const std::vector<std::string>& beside) {
  std::vector<probe::ProbeArm> arms;
  for (const Variant& variant : variants_of(families, beside, options))
    arms.push_back({variant.name, objective_of(variant, options)});
  return arms;
}

probe::BankOptions bank_options(const StudyOptions& options, std::uint64_t seed) {
  probe::BankOptions wanted;
  wanted.states = options.states;
  wanted.max_new_tokens = options.max_new;
  wanted.seed = seed;
  wanted.objective = objective_of(variant_named("routeopd", options), options);
  return wanted;
}

// The student's answers to as many of the prompts as it takes until they have the states that are wanted.
Rollout visited_states(const LoadedPair& pair, std::span<const Prompt> all,
                       const probe::BankOptions& wanted) {
  engine::LocalEngine student(pair.base(), pair.tokenizer().real_ids());
  for (std::size_t count = std::min(all.size(), kBankPrompts);; count = std::min(all.size(), 2 * count)) {
    Rollout visited = probe::visit_states(student, all.first(count), wanted);
    if (visited.states() >= wanted.states || count == all.size()) return visited;
  }
}

// Removes what a killed process left, and a directory whose probe.json was removed. The study is locked:
// nobody else writes here.
void clear_place(const fs::path& place) {
  if (fs::exists(place)) remove_whole(place);
  remove_abandoned(place.parent_path(), place.filename().string());
}

void run_one(const PlannedProbe& planned, const StudyFiles& files, const LoadedPair& pair,
             const ProbesWatch& watch) {
  Clock::time_point last = Clock::now();
  const auto tell = [&](const std::string& row, std::int64_t done, std::int64_t total) {
    if (watch) watch(row, done, total, seconds_since(last));
    last = Clock::now();
  };
  const fs::path place = files.path() / StudyFiles::probe_path(planned.name);
  fs::create_directories(place.parent_path());
  clear_place(place);
  // The step whose size all others are scaled to is RouteOPD's, at its own rate.
  train::OptimizerSection optimizer = pair.recipe().optimizer;
  optimizer.lr = files.rates().of(variant_named("routeopd", files.options()));
  const fs::path moments = planned.checkpoint.empty() ? fs::path() : files.path() / planned.checkpoint;
  probe::run_probe({.bank = files.place_of(StudyFiles::kBank),
                    .student = moments.empty() ? fs::path(files.pair().student) : moments,
                    .teacher = files.pair().teacher,
                    .moments = moments,
                    .arms = planned.arms,
                    .interventions = planned.interventions,
                    .optimizer = optimizer,
                    .out = place,
                    .dump = {}},
                   [&](std::int64_t done, std::int64_t total, const std::string& what) {
                     tell(fmt::format("{}: {}", planned.name, what), done, total);
                   });
  tell(planned.name, planned.rows(), planned.rows());
}

}  // namespace

std::vector<PlannedProbe> probes_of(const StudyOptions& options) {
  std::vector<PlannedProbe> probes;
  const auto add = [&](PlannedProbe planned) {
    if (!planned.arms.empty()) probes.push_back(std::move(planned));
  };
  add({.name = "arms",
       .at = "base",
       .checkpoint = "",
       .arms = arms_of(options, {Family::kMain, Family::kAblation}, {}),
       .interventions = {Intervention::kFreshAdamW}});
  add({.name = "support",
       .at = "base",
       .checkpoint = "",
       .arms = arms_of(options, {Family::kSupport, Family::kPairs}, {"routeopd", "exact"}),
       .interventions = {Intervention::kFreshAdamW}});
  const std::vector<PlannedRun> runs = runs_of(part_named("mechanism"), options);
  const auto run = std::find_if(runs.begin(), runs.end(),
                                [](const PlannedRun& each) { return each.variant.name == "routeopd"; });
  if (run == runs.end()) return probes;
  const std::int64_t step = run->hold > 0 ? run->hold : options.steps;
  add({.name = "ladder",
       .at = fmt::format("{} step_{}", run->name(), step),
       .checkpoint = StudyFiles::checkpoint_path(*run, step),
       .arms = arms_of(options, {}, {"routeopd"}),
       .interventions = {probe::kInterventions.begin(), probe::kInterventions.end()}});
  return probes;
}

void make_bank(StudyFiles& files, const LoadedPair& pair) {
  if (files.has(StudyFiles::kBank)) return;
  const StudyOptions& options = files.options();
  probe::BankOptions wanted = bank_options(options, options.main_seeds.front());
  const Rollout visited = visited_states(pair, pair.bank_prompts(), wanted);
  if (visited.states() < wanted.states) {
    files.add_note(
        fmt::format("the bank has {} states and not the {} that were asked for: the answers to all {} "
                    "prompts have no more",
                    visited.states(), wanted.states, visited.prompt_ids_P.size()));
    wanted.states = visited.states();
  }
  probe::Bank bank =
      probe::make_bank(visited, pair.base(), pair.teacher(), pair.tokenizer().real_ids(), wanted);
  bank.student = {files.pair().student, formats::weights_sha256(files.pair().student)};
  bank.teacher = {files.pair().teacher, formats::weights_sha256(files.pair().teacher)};
  probe::write_bank(bank, files.place_of(StudyFiles::kBank));
  files.put(StudyFiles::kBank);
}

void measure_step_sizes(Tuning& tuning, const LoadedPair& pair, const StudyOptions& options) {
  probe::BankOptions wanted = bank_options(options, options.tune_seeds.front());
  const Rollout visited = visited_states(pair, pair.validation().suites().front().prompts, wanted);
  wanted.states = std::min({wanted.states, visited.states(), kTunedStates});
  const probe::Bank bank =
      probe::make_bank(visited, pair.base(), pair.teacher(), pair.tokenizer().real_ids(), wanted);
  probe::Prober prober(bank, pair.base(), pair.teacher().head_VH, pair.recipe().optimizer,
                       /*banks_own=*/true);
  for (const std::string& arm : tuned_arms(options)) {
    std::vector<TunedRate*> points;
    std::vector<double> rates;
    for (TunedRate& rate : tuning.rates) {
      if (rate.arm != arm) continue;
      points.push_back(&rate);
      rates.push_back(rate.lr);
    }
    const probe::ProbeArm probed{arm, objective_of(variant_named(arm, options), options)};
    const std::vector<probe::StepSize> sizes = probe::step_sizes(prober, probed, rates);
    for (std::size_t i = 0; i < points.size(); ++i) {
      points[i]->rms = sizes[i].rms;
      points[i]->completion = sizes[i].completion;
      points[i]->overshoot = sizes[i].overshoot;
    }
  }
}

void run_probes(StudyFiles& files, const LoadedPair& pair, const ProbesWatch& watch) {
  for (const PlannedProbe& planned : probes_of(files.options())) {
    if (!files.has_probe(planned.name)) run_one(planned, files, pair, watch);
    files.put_probe(planned.name, planned.at);
  }
}

}  // namespace routeopd::study
