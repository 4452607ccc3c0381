// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_run.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "routeopd/base/files.h"
#include "routeopd/base/system.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/run/watched_run.h"
#include "routeopd/study/study_files.h"

namespace routeopd::study {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostSummaryBytes = 1 << 24;

// A run into its directory: what of it is there already is used.
struct Place {
  fs::path directory;
  std::int64_t hold = 0;  // the step whose checkpoint stays
};

train::Recipe recipe_of(const Variant& variant, double lr, std::uint64_t seed, const fs::path& directory,
                        const LoadedPair& pair, const StudyOptions& options) {
  train::Recipe recipe = pair.recipe();
  recipe.seed = seed;
  recipe.out = directory.string();
  recipe.objective = objective_of(variant, options);
  recipe.optimizer.lr = lr;
  return recipe;
}

void train_watched(const train::Recipe& recipe, const Place& place, const LoadedPair& pair,
                   const run::SuiteEvaluator& evaluator, run::RunEvents watch, const StudyRunEvents& events) {
  train::check_recipe(recipe);
  train::Inputs inputs = pair.inputs();
  watch.stepped = [&](const StepMetrics& metrics) {
    events.step(metrics);
    remove_checkpoints(place.directory, place.hold);
  };
  watch.evaluating = [&](std::int64_t, const eval::EvalProgress& at) {
    events.evaluating(at.done, at.total);
  };
  run::WatchedRun watched(recipe, inputs, evaluator);
  reset_peak_resident();
  watched.train(train::Start::kResume, watch);
}

}  // namespace

// Below the newest that is there, not below the step at hand: most steps have none where `save_every` is
// above 1.
void remove_checkpoints(const fs::path& run, std::int64_t hold) {
  std::vector<std::int64_t> steps;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", ignored)) {
    const std::string name = entry.path().filename().string();
    std::int64_t step = 0;
    if (!name.starts_with("step_")) continue;
    std::from_chars(name.data() + 5, name.data() + name.size(), step);
    if (name == fmt::format("step_{}", step)) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  for (const std::int64_t step : steps) {
    if (step != steps.back() && step != hold)
      remove_whole(run / "checkpoints" / fmt::format("step_{}", step));
  }
}

bool is_due(const PlannedRun& run, std::int64_t step, std::int64_t steps) {
  return step == steps || (run.every > 0 && step % run.every == 0);
}

std::int64_t evaluations_of(const PlannedRun& run, std::int64_t steps) {
  return run.every > 0 ? (steps + run.every - 1) / run.every : 1;
}

void make_run(const PlannedRun& run, double lr, const fs::path& study, const LoadedPair& pair,
              const StudyOptions& options, const StudyRunEvents& events) {
  const Place place{study / StudyFiles::run_path(run), run.hold};
  train::Recipe recipe = recipe_of(run.variant, lr, run.seed, place.directory, pair, options);
  recipe.probe.every = run.every;
  recipe.eval.every = recipe.eval.suites.empty() ? 0 : run.every > 0 ? run.every : options.steps;
  if (run.every > 0) recipe.probe.bank = absolute_path(study / StudyFiles::kBank.file);
  run::RunEvents watch;
  watch.evaluated = [&](const fs::path& made) { pair.label(made); };
  watch.measured = [&](std::int64_t step, double seconds) {
    if (!is_due(run, step, options.steps)) return;
    events.evaluated(seconds);
    reset_peak_resident();  // evaluations do not count
  };
  train_watched(recipe, place, pair, pair.evaluator(), std::move(watch), events);
}

double make_trial(const Trial& trial, const fs::path& study, const LoadedPair& pair,
                  const StudyOptions& options, const StudyRunEvents& events) {
  const Place place{study / StudyFiles::trial_path(trial)};
  const Variant variant = variant_named(trial.arm, options);
  train::Recipe recipe = recipe_of(variant, trial.lr, trial.seed, place.directory, pair, options);
  recipe.train.steps = recipe.eval.every = options.trial_steps();
  const eval::Suite& suite = pair.validation().suites().front();
  recipe.eval.suites = {{suite.name, suite.file}};
  recipe.eval.n = options.tune_samples;
  run::RunEvents watch;
  std::optional<double> average;
  watch.evaluated = [&](const fs::path& made) {
    average = formats::read_json_object(made / "summary.json", kMostSummaryBytes).at("avg").get<double>();
  };
  watch.measured = [&](std::int64_t step, double seconds) {
    if (step == options.trial_steps()) events.evaluated(seconds);
  };
  train_watched(recipe, place, pair, pair.validation(), std::move(watch), events);
  ROUTEOPD_INVARIANT(average.has_value());
  return *average;
}

}  // namespace routeopd::study
