// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/train.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include "routeopd/base/interrupt.h"
#include "routeopd/base/system.h"
#include "routeopd/engine/engine.h"
#include "routeopd/objective/engine_gap.h"
#include "routeopd/train/metrics.h"
#include "routeopd/train/schedule.h"
#include "routeopd/train/stages.h"

namespace routeopd::train {
namespace {

class Run {
 public:
  Run(const Recipe& recipe, Inputs& inputs, Engines engines, Start start);

  std::int64_t steps_done() const { return state_.step; }
  const StepMetrics& last_metrics() const { return files_.last_metrics(); }

  // The method: the student writes, the teacher reads, what differs is routed, the student learns the routes.
  StepMetrics step() {
    const HoldInterrupts until_the_step_is_whole;
    clock_.start();
    try {
      stages_.refresh();
      clock_.book("refresh");
      const std::vector<Prompt> prompts = order_.prompts(inputs_.prompts, state_.step);
      Rollout rollout = stages_.write(prompts, state_.step);
      clock_.book("rollout");
      const Scores scores = stages_.score(rollout);
      clock_.book("score");
      const Routes routes = stages_.route(rollout, scores);
      clock_.book("route");
      const Experience experience = stages_.experience(rollout, scores, routes);
      if (state_.step == 0) check_first_routes(experience);
      consistent_ = false;
      const UpdateResult update = stages_.learn(experience);
      clock_.book("learn");
      if (recipe_.train.rollouts) files_.rollouts(state_.step + 1, rollout, prompts, inputs_.tokenizer);
      return record(experience, update);
    } catch (const engine::NonFiniteLogits& error) {  // thrown while the student writes: nothing was changed
      clock_.book("rollout");
      files_.log(fmt::format("step {}: {}", state_.step + 1, error.what()));
      const Rollout nothing;
      return record({.rollout = &nothing, .scores = nullptr, .routes = nullptr}, stages_.skip());
    }
  }

  void save();
  void log(const std::string& line) { files_.log(line); }
  void stop(const std::exception& error);

 private:
  StepMetrics record(const Experience& experience, const UpdateResult& update);
  void check_first_routes(const Experience& experience) const;

  const Recipe& recipe_;
  Inputs& inputs_;
  Stages stages_;
  PromptOrder order_;
  RunDirectory files_;
  RunState state_;
  StageClock clock_;
  std::set<std::string> told_;  // counts of the servers that the log has named
  bool consistent_ = true;      // the weights are those of `state_`, and its lines are written
};

}  // namespace

std::int64_t train(const Recipe& recipe, Inputs& inputs, Engines engines, const StepWatch& watch,
                   Start start) {
  Run run(recipe, inputs, std::move(engines), start);
  const std::int64_t first = run.steps_done();
  try {
    if (watch && first > 0) watch(run.last_metrics());
    while (run.steps_done() < recipe.train.steps) {
      const StepMetrics metrics = run.step();
      if (watch) watch(metrics);
      check_interrupt();
    }
  } catch (const Interrupted&) {
    run.save();
    run.log(fmt::format("interrupted after step {}", run.steps_done()));
    throw;
  } catch (const std::exception& error) {  // ours, the disk's, LibTorch's
    run.stop(error);
    throw;
  }
  if (run.steps_done() > first) run.log(fmt::format("{} steps done", run.steps_done()));
  return run.steps_done() - first;
}

std::int64_t train(const Recipe& recipe, Inputs& inputs, const StepWatch& watch, Start start) {
  return train(recipe, inputs, make_engines(recipe, inputs), watch, start);
}

namespace {

Run::Run(const Recipe& recipe, Inputs& inputs, Engines engines, Start start)
    : recipe_(recipe),
      inputs_(inputs),
      stages_(recipe, inputs, std::move(engines)),
      order_(std::ssize(inputs.prompts), recipe),
      files_(recipe, start) {
  if (files_.resumed()) {
    if (const auto checkpoint = files_.newest_checkpoint())
      state_ = stages_.resume(*checkpoint, inputs.student, files_.inputs());
    files_.rewind(state_.step);
  }
  if (state_.step == recipe.train.steps) return;
  stages_.tell_to([this](const std::string& line) { log(line); });
  log(fmt::format("{} steps of {} responses from step {}, arm {}, seed {}, {} threads on {}",
                  recipe.train.steps, recipe.responses(), state_.step, recipe.objective.arm, recipe.seed,
                  at::get_num_threads(), cpu_model()));
  if (inputs.too_long > 0)
    log(fmt::format("{} prompts skipped: too long for the models' positions", inputs.too_long));
  if (!inputs.contamination_warning.empty()) log("warning: " + inputs.contamination_warning);
}

// Lines first, the checkpoint last: it is never ahead of them.
StepMetrics Run::record(const Experience& experience, const UpdateResult& update) {
  ++state_.step;
  state_.bad_steps = update.updates > 0 ? 0 : state_.bad_steps + 1;
  StepMetrics metrics = step_metrics(state_.step, experience, update);
  std::vector<std::string> teachers;
  for (const RunTeacher& teacher : recipe_.run_teachers()) teachers.push_back(teacher.name);
  metrics.teachers = teacher_metrics(teachers, experience);
  metrics.time = clock_.take();  // its `save` is that of the step before
  metrics.peak_bytes = peak_resident_bytes();
  metrics.servers = stages_.take_counts();
  for (const auto& [name, count] : metrics.servers)
    if (told_.insert(name).second)
      log(fmt::format("servers: {}: {} (said once; metrics.jsonl counts)", name, count));
  if (const auto share = metrics.engine_gap.find("share");
      share != metrics.engine_gap.end() && share->second > 0.5 && told_.insert("engine_gap").second)
    log(fmt::format(
        "engine_gap: at {:.0f} % of the states the engine's values are more than {} nats from the "
        "learner's; in float32 its weights are not the student's (said once; docs/training.md)",
        100 * share->second, objective::kEngineGapThreshold));
  files_.metrics(metrics);
  consistent_ = true;
  const std::string skipped = skipped_text(metrics, update);
  if (!skipped.empty()) log(fmt::format("step {}: {}", state_.step, skipped));
  const bool due = recipe_.checkpoint.every > 0 && state_.step % recipe_.checkpoint.every == 0;
  if (due || state_.step == recipe_.train.steps) save();
  if (state_.bad_steps > recipe_.train.max_bad_steps) {
    save();
    throw UserError(
        "step {}: {} steps in a row made no update ({} in the last one); the weights before them are in "
        "{}/checkpoints/step_{}; are both models' weights whole, and is "
        "[optimizer] lr small enough?",
        state_.step, state_.bad_steps, skipped, recipe_.out, state_.step);
  }
  clock_.book("save");
  return metrics;
}

void Run::save() {
  if (state_.step > 0 && !files_.has_checkpoint(state_.step))
    files_.checkpoint(state_, inputs_.student, stages_.learner());
}

// Saves what an error leaves whole.
void Run::stop(const std::exception& error) {
  if (state_.step == 0 && !files_.resumed()) {
    files_.discard();  // nothing was done that could be lost
    return;
  }
  try {
    log(fmt::format("stopped: {}", error.what()));
    if (consistent_) save();
  } catch (const std::exception&) {
    // The first error is the one to report; earlier checkpoints are whole.
  }
}

// A run whose first step has nothing to move would train on nothing, or on the rounding of two forwards that
// should be equal (a mass of about 1e-6), which Adam enlarges: it is refused.
void Run::check_first_routes(const Experience& experience) const {
  if (experience.routes == nullptr || !recipe_.makes_routes()) return;
  constexpr float kRounding = 1e-5F;
  const Routes& routes = *experience.routes;
  if (std::count(routes.validity_N.begin(), routes.validity_N.end(), Validity::kValid) == 0) return;
  const float largest = *std::max_element(routes.mass_N.begin(), routes.mass_N.end());
  if (largest <= kRounding) {
    throw UserError(
        "teacher and student agree at all {} states of the first step (largest M = {:.1e}): there is nothing "
        "to train on; choose another teacher, or give it a prompt of its own that tells it more",
        routes.states, largest);
  }
  if (recipe_.objective.loss == routing::Loss::kRouted &&
      std::count(routes.routed_N.begin(), routes.routed_N.end(), 1) == 0) {
    throw UserError(
        "none of the {} states of the first step has a route (largest M = {:.1e}): the arm finds no "
        "destination, and there is nothing to train on; try a smaller [objective] k",
        routes.states, largest);
  }
}

}  // namespace
}  // namespace routeopd::train
