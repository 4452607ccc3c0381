//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/train.h"

#include <algorithm>
#include <filesystem>

#include "routeopd/base/interrupt.h"
#include "routeopd/text/prompts.h"
#include "routeopd/train/metrics.h"
#include "routeopd/train/run_directory.h"
#include "routeopd/train/schedule.h"
#include "routeopd/train/stages.h"

namespace routeopd::train {
namespace {

std::vector<Prompt> prompts_of_step(const std::vector<Prompt>& all, PromptOrder& order, std::int64_t step) {
  std::vector<Prompt> chosen;
  for (const std::size_t place : order.step(step)) chosen.push_back(all[place]);
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

// Two models speak of the same ids only when their tokenizers agree. A teacher directory without one is taken at its word.
void check_same_tokens(const text::Tokenizer& student, const std::string& teacher_path) {
  if (!std::filesystem::exists(std::filesystem::path(teacher_path) / "tokenizer.json")) return;
  const text::Tokenizer teacher(teacher_path);
  for (std::int32_t id = 0; id < std::max(student.real_ids(), teacher.real_ids()); ++id) {
    const std::string ours = id < student.real_ids() ? student.token_of(id) : "",
                      theirs = id < teacher.real_ids() ? teacher.token_of(id) : "";
    if (ours != theirs)
      throw UserError(
          "[teacher] path: its tokenizer has \"{}\" for id {} where the student's has \"{}\"; choose a "
          "teacher "
          "with the same tokenizer",
          theirs, id, ours);
  }
}

}  // namespace

Inputs load_inputs(const Recipe& recipe, const text::Tokenizer& tokenizer) {
  Inputs inputs;
  inputs.student = model::load_model(recipe.student.path);
  if (!recipe.sft()) {
    check_same_tokens(tokenizer, recipe.teacher.path);
    inputs.teacher = model::load_model(recipe.teacher.path);
  }
  inputs.real_ids = tokenizer.real_ids();
  inputs.tokenizer = &tokenizer;
  const auto& eos = inputs.student.config.eos_token_ids;
  inputs.prompts = text::read_prompts(recipe.data.prompts, text::PromptTemplate(recipe.data.prompt_template),
                                      &tokenizer, eos.empty() ? -1 : eos.front());
  return inputs;
}

void train(const Recipe& recipe, Inputs& inputs, const StepWatch& watch) {
  check_recipe(recipe);
  Stages stages(recipe, inputs);
  RunDirectory run(recipe);
  PromptOrder order(std::ssize(inputs.prompts), recipe);
  std::int64_t done = 0;
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
      const UpdateResult update = stages.learn(experience);
      clock.book("learn");
      ++done;

      const bool due = recipe.checkpoint.every > 0 && done % recipe.checkpoint.every == 0;
      if (due || done == recipe.train.steps) run.checkpoint(done, inputs.student, stages.optimizer());
      if (recipe.train.rollouts) keep_rollout(run, done, rollout, prompts, inputs.tokenizer);
      clock.book("save");
      Json metrics = step_metrics(done, experience, update);
      metrics["time"] = clock.seconds();
      metrics["memory"] = {{"peak_bytes", peak_memory_bytes()}};
      run.metrics(metrics);
      if (watch) watch(done, metrics);
      check_interrupt();
    }
  } catch (const Interrupted&) {
    if (done > 0 && !std::filesystem::exists(run.checkpoint_path(done)))
      run.checkpoint(done, inputs.student, stages.optimizer());
    run.log(fmt::format("interrupted after step {}", done));
    throw;
  }
  run.log(fmt::format("{} steps done", done));
}

}  // namespace routeopd::train
