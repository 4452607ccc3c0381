//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/train.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <filesystem>

#include "routeopd/base/cpu.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/base/memory.h"
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
                  const std::vector<Prompt>& prompts, const text::Tokenizer* tokenizer) {
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
  const std::vector<float>& mass = experience.routes->mass_N;
  const std::vector<std::uint8_t>& routed = experience.routes->routed_N;
  const float largest = *std::max_element(mass.begin(), mass.end());
  if (largest <= kRounding) {
    throw UserError(
        "teacher and student agree at all {} states of the first step (largest M = {:.1e}): there is nothing "
        "to "
        "train on; choose another teacher",
        mass.size(), largest);
  }
  if (recipe.objective.loss == routing::Loss::kRouted && std::count(routed.begin(), routed.end(), 1) == 0) {
    throw UserError(
        "none of the {} states of the first step has a route (largest M = {:.1e}): the arm finds no "
        "destination, and "
        "there is nothing to train on; try a smaller [objective] k",
        mass.size(), largest);
  }
}

}  // namespace

void train(const Recipe& recipe, Inputs& inputs, const StepWatch& watch) {
  check_recipe(recipe);
  Stages stages(recipe, inputs);
  RunDirectory run(recipe);
  PromptOrder order(std::ssize(inputs.prompts), recipe);
  run.log(fmt::format("{} steps of {} responses, arm {}, seed {}, {} threads on {}", recipe.train.steps,
                      recipe.responses(), recipe.objective.arm, recipe.seed, at::get_num_threads(),
                      cpu_model()));
  std::int64_t done = 0;
  const auto save_last = [&] {
    if (done > 0 && !std::filesystem::exists(run.checkpoint_path(done)))
      run.checkpoint(done, inputs.student, stages.optimizer());
  };
  try {
    while (done < recipe.train.steps) {
      StageClock clock;
      const std::vector<Prompt> prompts = prompts_of_step(inputs.prompts, order, done);
      Rollout rollout = stages.write(prompts, done);
      clock.book("rollout");
      const Scores scores = stages.score(rollout);
      clock.book("score");
      const Routes routes = stages.route(rollout, scores);
      clock.book("route");
      const Experience experience = stages.experience(rollout, scores, routes);
      if (done == 0) check_first_routes(recipe, experience);
      const UpdateResult update = stages.learn(experience);
      clock.book("learn");
      if (update.skipped > 0)
        throw UserError("step {}: the gradient is not finite; try a smaller [optimizer] lr", done + 1);
      ++done;

      const bool due = recipe.checkpoint.every > 0 && done % recipe.checkpoint.every == 0;
      if (due || done == recipe.train.steps) run.checkpoint(done, inputs.student, stages.optimizer());
      if (recipe.train.rollouts) keep_rollout(run, done, rollout, prompts, inputs.tokenizer);
      clock.book("save");
      Json metrics = step_metrics(done, experience, update);
      metrics["time"] = clock.seconds();
      metrics["memory"] = {{"peak_bytes", peak_resident_bytes()}};
      run.metrics(metrics);
      if (watch) watch(done, metrics);
      check_interrupt();
    }
  } catch (const Interrupted&) {
    save_last();
    run.log(fmt::format("interrupted after step {}", done));
    throw;
  } catch (const UserError& error) {
    if (done == 0) {
      run.discard();  // nothing was done that could be lost
    } else {
      run.log(fmt::format("stopped after step {}: {}", done, error.what()));
      // With several updates a step, some of the one that failed may be in the weights.
      if (recipe.train.minibatches * recipe.train.epochs == 1) save_last();
    }
    throw;
  }
  run.log(fmt::format("{} steps done", done));
}

}  // namespace routeopd::train
