// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_run.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "routeopd/base/files.h"
#include "routeopd/base/system.h"
#include "routeopd/run/watched_run.h"
#include "routeopd/study/study_files.h"

namespace routeopd::study {
namespace {

namespace fs = std::filesystem;

train::Recipe recipe_of(const PlannedRun& run, const fs::path& directory, const LoadedPair& pair,
                        const StudyOptions& options) {
  train::Recipe recipe = pair.recipe();
  recipe.seed = run.seed;
  recipe.out = directory.string();
  recipe.objective = objective_of(run.variant, options);
  recipe.probe.every = run.every;
  recipe.eval.every = recipe.eval.suites.empty() ? 0 : run.every > 0 ? run.every : options.steps;
  return recipe;
}

}  // namespace

// Below the newest that is there, not below the step at hand: most steps have none where `save_every` is
// above 1. Then a removal that is killed half-way has a whole checkpoint above it, too.
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
      fs::remove_all(run / "checkpoints" / fmt::format("step_{}", step), ignored);
  }
}

bool is_due(const PlannedRun& run, std::int64_t step, std::int64_t steps) {
  return step == steps || (run.every > 0 && step % run.every == 0);
}

std::int64_t evaluations_of(const PlannedRun& run, std::int64_t steps) {
  return run.every > 0 ? (steps + run.every - 1) / run.every : 1;
}

void make_run(const PlannedRun& run, const fs::path& study, const LoadedPair& pair,
              const StudyOptions& options, const StudyRunEvents& events) {
  const fs::path directory = study / StudyFiles::run_path(run);
  train::Recipe recipe = recipe_of(run, directory, pair, options);
  if (run.every > 0) recipe.probe.bank = absolute_path(study / StudyFiles::kBank.file);
  train::check_recipe(recipe);
  train::Inputs inputs = pair.inputs();
  run::RunEvents watch;
  watch.stepped = [&](const StepMetrics& metrics) {
    events.step(metrics);
    remove_checkpoints(directory, run.hold);
  };
  watch.evaluating = [&](std::int64_t, const eval::EvalProgress& at) {
    events.evaluating(at.done, at.total);
  };
  watch.evaluated = [&](const fs::path& made) { pair.label(made); };
  watch.measured = [&](std::int64_t step, double seconds) {
    if (!is_due(run, step, options.steps)) return;
    events.evaluated(seconds);
    reset_peak_resident();  // evaluations do not count
  };
  run::WatchedRun watched(recipe, inputs, pair.evaluator());
  reset_peak_resident();
  remove_partial_files(directory / "recipe.toml");
  watched.train(train::Start::kResume, watch);
}

}  // namespace routeopd::study
