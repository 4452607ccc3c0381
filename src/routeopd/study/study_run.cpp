// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_run.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "routeopd/base/files.h"
#include "routeopd/base/system.h"
#include "routeopd/probe/probe_log.h"
#include "routeopd/study/study_files.h"
#include "routeopd/study/study_pace.h"
#include "routeopd/train/train.h"

namespace routeopd::study {
namespace {

namespace fs = std::filesystem;

std::string note_of(const Json& metrics) {
  const auto number = [&](const char* name) {
    const Json value = metrics.value(name, Json());
    return value.is_number() ? value.get<double>() : std::nan("");
  };
  return fmt::format("loss {:.4f}, mass {:.3f}", number("loss"), number("mass"));
}

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
              const StudyOptions& options, const RunEvents& events) {
  const fs::path directory = study / StudyFiles::run_path(run);
  train::Recipe recipe = recipe_of(run, directory, pair, options);
  if (run.every > 0) recipe.probe.bank = absolute_path(study / StudyFiles::kBank.file);
  train::Inputs inputs = pair.inputs();
  probe::ProbeLog probe(recipe, inputs);
  reset_peak_resident();
  remove_partial_files(directory / "recipe.toml");
  train::train(
      recipe, inputs,
      [&](std::int64_t step, const Json& metrics) {
        events.step(step, metrics.value("time", Json::object()).value("total", 0.0), note_of(metrics));
        remove_checkpoints(directory, run.hold);
        if (is_due(run, step, options.steps)) {
          const auto begin = Clock::now();
          if (!pair.suites().empty())
            pair.evaluate(study / StudyFiles::eval_path(run, step), inputs.student,
                          {{"path", recipe.out}, {"step", step}},
                          [&](const eval::EvalProgress& at) { events.evaluating(step, at.done, at.total); });
          probe.after(step);
          events.evaluated(step, seconds_since(begin));
          reset_peak_resident();  // evaluations do not count
        }
      },
      train::Start::kResume);
}

}  // namespace routeopd::study
