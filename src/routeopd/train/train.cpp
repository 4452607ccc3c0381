//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/train.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "routeopd/base/interrupt.h"
#include "routeopd/base/system.h"
#include "routeopd/engine/engine.h"
#include "routeopd/train/metrics.h"
#include "routeopd/train/run_directory.h"
#include "routeopd/train/schedule.h"
#include "routeopd/train/stages.h"

namespace routeopd::train {
namespace {

std::vector<Prompt> prompts_of_step(const std::vector<Prompt>& all, PromptOrder& order, std::int64_t step) {
  std::vector<Prompt> chosen;
  for (const std::size_t place : order.step(step)) {
    chosen.push_back(all[place]);
    // Random numbers are addressed by the place in the step: a prompt that comes twice, where one pass over the data ends
    // and the next begins, is answered twice.
    chosen.back().number = static_cast<std::uint32_t>(chosen.size() - 1);
  }
  return chosen;
}

// What a rollout leaves in rollouts.jsonl.
void keep_rollout(RunDirectory& run, std::int64_t step, const Rollout& rollout,
                  const std::vector<Prompt>& prompts, const tokenizer::Tokenizer* tokenizer) {
  for (const Response& response : rollout.responses_B) {
    const auto first = rollout.id_N.begin() + response.first_state;
    const std::vector<std::int32_t> ids(first, first + response.length);
    Json line = {{"step", step},
                 {"id", prompts[static_cast<std::size_t>(response.prompt)].id},
                 {"sample", response.sample},
                 {"ids", ids},
                 {"finish", response.finish == Finish::kStop ? "stop" : "length"}};
    if (tokenizer != nullptr) line["text"] = tokenizer->decode(ids, /*skip_special=*/true);
    run.rollout(line);
  }
}

// A run whose first step has nothing to move would train on nothing, or on the rounding of two forwards that should be
// equal (a mass of about 1e-6), which Adam enlarges. It should say so.
void check_first_routes(const Recipe& recipe, const Experience& experience) {
  if (experience.routes == nullptr) return;
  constexpr float kRounding = 1e-5F;
  const Routes& routes = *experience.routes;
  if (std::count(routes.validity_N.begin(), routes.validity_N.end(), Validity::kValid) == 0) return;
  const float largest = *std::max_element(routes.mass_N.begin(), routes.mass_N.end());
  if (largest <= kRounding) {
    throw UserError(
        "teacher and student agree at all {} states of the first step (largest M = {:.1e}): there is nothing "
        "to train on; choose another teacher",
        routes.states, largest);
  }
  if (recipe.objective.loss == routing::Loss::kRouted &&
      std::count(routes.routed_N.begin(), routes.routed_N.end(), 1) == 0) {
    throw UserError(
        "none of the {} states of the first step has a route (largest M = {:.1e}): the arm finds no "
        "destination, and there is nothing to train on; try a smaller [objective] k",
        routes.states, largest);
  }
}

class Run {
 public:
  Run(const Recipe& recipe, Inputs& inputs, Engines engines, Start start)
      : recipe_(recipe),
        inputs_(inputs),
        stages_(recipe, inputs, std::move(engines)),
        order_(std::ssize(inputs.prompts), recipe),
        files_(recipe, start) {
    if (files_.resumed()) {
      if (const auto checkpoint = files_.newest())
        state_ = stages_.resume(*checkpoint, inputs.student, files_.inputs());
      files_.rewind(state_.step);
    }
    if (state_.step == recipe.train.steps) return;  // nothing to do, nothing to say
    files_.log(fmt::format("{} steps of {} responses from step {}, arm {}, seed {}, {} threads on {}",
                           recipe.train.steps, recipe.responses(), state_.step, recipe.objective.arm,
                           recipe.seed, at::get_num_threads(), cpu_model()));
    if (inputs.too_long > 0)
      files_.log(fmt::format("{} prompts left out: too long for the models' positions", inputs.too_long));
    if (!inputs.contamination_warning.empty()) files_.log("warning: " + inputs.contamination_warning);
  }

  std::int64_t go(const StepWatch& watch) {
    const std::int64_t first = state_.step;
    try {
      if (watch && first > 0) watch(first, files_.last_metrics());
      while (state_.step < recipe_.train.steps) {
        const Json metrics = step();
        if (watch) watch(state_.step, metrics);
        check_interrupt();
      }
    } catch (const Interrupted&) {
      save();
      files_.log(fmt::format("interrupted after step {}", state_.step));
      throw;
    } catch (const std::exception& error) {  // ours, the disk's, LibTorch's
      give_up(error);
      throw;
    }
    if (state_.step > first) files_.log(fmt::format("{} steps done", state_.step));
    return state_.step - first;
  }

 private:
  Json step() {
    const HoldInterrupts until_it_is_whole;
    clock_.start();
    try {
      return distil();
    } catch (const engine::NonFiniteLogits& error) {  // the student cannot write; nothing was changed
      clock_.book("rollout");
      files_.log(fmt::format("step {}: {}", state_.step + 1, error.what()));
      const Rollout nothing;
      return record({.rollout = &nothing, .scores = nullptr, .routes = nullptr}, stages_.skip());
    }
  }

  // The method: the student writes, the teacher reads, what differs is routed, the student learns the routes.
  Json distil() {
    const std::vector<Prompt> prompts = prompts_of_step(inputs_.prompts, order_, state_.step);
    Rollout rollout = stages_.write(prompts, state_.step);
    clock_.book("rollout");
    const Scores scores = stages_.score(rollout);
    clock_.book("score");
    const Routes routes = stages_.route(rollout, scores);
    clock_.book("route");
    const Experience experience = stages_.experience(rollout, scores, routes);
    if (state_.step == 0) check_first_routes(recipe_, experience);
    whole_ = false;
    const UpdateResult update = stages_.learn(experience);
    clock_.book("learn");
    if (recipe_.train.rollouts) keep_rollout(files_, state_.step + 1, rollout, prompts, inputs_.tokenizer);
    return record(experience, update);
  }

  // Lines first, the checkpoint last: what it holds is never ahead of them.
  Json record(const Experience& experience, const UpdateResult& update) {
    ++state_.step;
    state_.bad_steps = update.updates > 0 ? 0 : state_.bad_steps + 1;
    Json metrics = step_metrics(state_.step, experience, update);
    metrics["time"] = clock_.take();  // its `save` is that of the step before
    metrics["memory"] = {{"peak_bytes", peak_resident_bytes()}};
    files_.metrics(metrics);
    whole_ = true;
    const std::string missing = left_out(metrics, update);
    if (!missing.empty()) files_.log(fmt::format("step {}: {}", state_.step, missing));
    const bool due = recipe_.checkpoint.every > 0 && state_.step % recipe_.checkpoint.every == 0;
    if (due || state_.step == recipe_.train.steps) save();
    if (state_.bad_steps > recipe_.train.max_bad_steps) {
      save();
      throw UserError(
          "step {}: {} steps in a row made no update ({} in the last one); the weights as they were are in "
          "{}/checkpoints/step_{}; are both models' weights whole, and is "
          "[optimizer] lr small enough?",
          state_.step, state_.bad_steps, missing, recipe_.out, state_.step);
    }
    clock_.book("save");
    return metrics;
  }

  void save() {
    if (state_.step > 0 && !files_.has_checkpoint(state_.step))
      files_.checkpoint(state_, inputs_.student, stages_.learner());
  }

  void give_up(const std::exception& error) {
    if (state_.step == 0 && !files_.resumed()) {
      files_.discard();  // nothing was done that could be lost
      return;
    }
    try {
      files_.log(fmt::format("stopped: {}", error.what()));
      if (whole_) save();
    } catch (const std::exception&) {
      // The first error is the one to tell; what was saved before is whole.
    }
  }

  const Recipe& recipe_;
  Inputs& inputs_;
  Stages stages_;
  PromptOrder order_;
  RunDirectory files_;
  RunState state_;
  StageClock clock_;
  bool whole_ = true;  // the weights are those of `state_`, and its lines are written
};

}  // namespace

std::int64_t train(const Recipe& recipe, Inputs& inputs, const StepWatch& watch, Start start) {
  return train(recipe, inputs, make_engines(recipe, inputs), watch, start);
}

std::int64_t train(const Recipe& recipe, Inputs& inputs, Engines engines, const StepWatch& watch,
                   Start start) {
  check_recipe(recipe);
  return Run(recipe, inputs, std::move(engines), start).go(watch);
}

}  // namespace routeopd::train
