//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/train.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "routeopd/base/interrupt.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/engine/score_rollout.h"
#include "routeopd/text/prompts.h"
#include "routeopd/train/learner.h"
#include "routeopd/train/metrics.h"
#include "routeopd/train/route_rollout.h"
#include "routeopd/train/run_directory.h"
#include "routeopd/train/schedule.h"

namespace routeopd::train {
namespace {

std::vector<Prompt> prompts_of_step(const std::vector<Prompt>& all, PromptOrder& order, std::int64_t step) {
  std::vector<Prompt> chosen;
  for (const std::size_t place : order.step(step)) chosen.push_back(all[place]);
  return chosen;
}

// The sft arm's rollout: the responses that were given, as if the student had written them.
Rollout given_responses(const std::vector<Prompt>& prompts, std::uint32_t step) {
  Rollout rollout;
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    rollout.prompt_ids_P.push_back(prompts[p].ids);
    rollout.responses_B.push_back({.prompt = static_cast<std::int32_t>(p),
                                   .first_state = rollout.states(),
                                   .length = std::ssize(prompts[p].response_ids)});
    for (std::uint32_t j = 0; j < prompts[p].response_ids.size(); ++j) {
      rollout.id_N.push_back(prompts[p].response_ids[j]);
      rollout.address_N.push_back({.step = step, .prompt = prompts[p].number, .position = j});
    }
  }
  rollout.logprob_N.resize(rollout.id_N.size());
  return rollout;
}

bool same_weights(const model::Model& a, const model::Model& b) {
  const auto left = model::parameters(a), right = model::parameters(b);
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const model::Parameter& x, const model::Parameter& y) {
                      return x.tensor.sizes() == y.tensor.sizes() &&
                             std::memcmp(x.tensor.const_data_ptr(), y.tensor.const_data_ptr(), x.tensor.nbytes()) == 0;
                    });
}

void check_inputs(const Recipe& recipe, const Inputs& inputs) {
  const auto prompts = std::ssize(inputs.prompts);
  if (prompts < recipe.rollout.prompts_per_step)
    throw UserError("[rollout] prompts_per_step: {} exceeds the {} prompts of {}", recipe.rollout.prompts_per_step,
                    prompts, recipe.data.prompts);
  for (const Prompt& prompt : inputs.prompts) {
    if (recipe.sft() && prompt.response_ids.empty())
      throw UserError("{}: prompt {} has no response; the sft arm learns from given ones", recipe.data.prompts, prompt.id);
  }
  if (inputs.teacher && same_weights(inputs.student, *inputs.teacher)) {
    throw UserError("[teacher] path: teacher and student have the same weights, so M = 0 and the loss is zero at every "
                    "state: there is nothing to distil; choose another teacher");
  }
}

// What a rollout leaves in rollouts.jsonl.
void keep_rollout(RunDirectory& run, std::int64_t step, const Rollout& rollout, const std::vector<Prompt>& prompts,
                  const text::Tokenizer* tokenizer) {
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

}  // namespace

Inputs load_inputs(const Recipe& recipe, const text::Tokenizer& tokenizer) {
  Inputs inputs;
  inputs.student = model::load_model(recipe.student.path);
  if (!recipe.sft()) inputs.teacher = model::load_model(recipe.teacher.path);
  inputs.real_ids = tokenizer.real_ids();
  inputs.tokenizer = &tokenizer;
  const auto& eos = inputs.student.config.eos_token_ids;
  inputs.prompts = text::read_prompts(recipe.data.prompts, text::PromptTemplate(recipe.data.prompt_template), &tokenizer,
                                      eos.empty() ? -1 : eos.front());
  return inputs;
}

void train(const Recipe& recipe, Inputs& inputs, const StepWatch& watch) {
  check_recipe(recipe);
  check_inputs(recipe, inputs);
  RunDirectory run(recipe);
  PromptOrder order(std::ssize(inputs.prompts), recipe);
  engine::LocalEngine student(inputs.student, inputs.real_ids);
  std::optional<engine::LocalEngine> teacher;
  Heads heads{.student_VH = inputs.student.head_VH, .teacher_UG = {}, .real_ids = inputs.real_ids};
  if (inputs.teacher) {
    teacher.emplace(*inputs.teacher, inputs.real_ids);
    heads.teacher_UG = inputs.teacher->head_VH;
  }
  Learner learner(inputs.student, heads.teacher_UG, inputs.real_ids, recipe);
  const bool rescored = recipe.rollout.old_scores == OldScores::kRescore;

  std::int64_t done = 0;
  try {
    for (std::int64_t step = 0; step < recipe.train.steps; ++step) {
      StageClock clock;
      const std::vector<Prompt> prompts = prompts_of_step(inputs.prompts, order, step);
      Rollout rollout;
      Scores scores;
      Routes routes;
      Experience experience{.rollout = &rollout};
      if (recipe.sft()) {
        rollout = given_responses(prompts, static_cast<std::uint32_t>(step));
      } else {
        const engine::Sampling sampling{.n = recipe.rollout.n,
                                        .decoding = {recipe.rollout.temperature, recipe.rollout.top_p},
                                        .max_new_tokens = recipe.rollout.max_new_tokens,
                                        .seed = recipe.seed,
                                        .step = static_cast<std::uint32_t>(step)};
        rollout = student.generate(prompts, sampling, capture_options(recipe.objective));
        clock.book("rollout");
        scores = engine::score_rollout(
            student, *teacher, rollout,
            score_options(recipe.objective, rollout, rescored, recipe.seed, inputs.real_ids));
        clock.book("score");
        routes = route_rollout(rollout, scores, recipe.objective, recipe.seed, heads);
        clock.book("route");
        experience.scores = &scores;
        experience.routes = &routes;
        if (recipe.train.rollouts) keep_rollout(run, step + 1, rollout, prompts, inputs.tokenizer);
      }
      const UpdateResult update = learner.update(experience);
      student.refresh();
      clock.book("learn");

      Json metrics = step_metrics(step + 1, experience, update);
      done = step + 1;
      const bool due = recipe.checkpoint.every > 0 && done % recipe.checkpoint.every == 0;
      if (due || done == recipe.train.steps) run.checkpoint(done, inputs.student, learner.optimizer());
      clock.book("save");
      metrics["time"] = clock.seconds();
      metrics["memory"] = {{"peak_bytes", peak_memory_bytes()}};
      run.metrics(metrics);
      if (watch) watch(done, metrics);
      check_interrupt();
    }
  } catch (const Interrupted&) {
    if (done > 0 && !std::filesystem::exists(run.checkpoint_path(done)))
      run.checkpoint(done, inputs.student, learner.optimizer());
    run.log(fmt::format("interrupted after step {}", done));
    throw;
  }
  run.log(fmt::format("{} steps done", done));
}

}  // namespace routeopd::train
