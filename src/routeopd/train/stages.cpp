//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/stages.h"

#include "routeopd/engine/score_rollout.h"

namespace routeopd::train {
namespace {

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

Heads heads_of(const Inputs& inputs) {
  return {.student_VH = inputs.student.head_VH,
          .teacher_UX = inputs.teacher ? inputs.teacher->head_VH : at::Tensor(),
          .real_ids = inputs.real_ids};
}

// The behaviour student is the one that learns: with weights in bfloat16 where the learner's forward has them so.
engine::LocalOptions rollout_options(const Recipe& recipe) {
  engine::LocalOptions options{.kv_bytes = static_cast<std::int64_t>(recipe.rollout.kv_memory * 1e9)};
  if (recipe.student.dtype == Dtype::kBfloat16) options.storage = model::WeightStorage::kBFloat16;
  return options;
}

const Inputs& checked(const Recipe& recipe, const Inputs& inputs) {
  check_inputs(recipe, inputs);
  return inputs;
}

}  // namespace

Stages::Stages(const Recipe& recipe, Inputs& inputs)
    : recipe_(recipe),
      real_ids_(checked(recipe, inputs).real_ids),
      student_(inputs.student, real_ids_, rollout_options(recipe)),
      heads_(heads_of(inputs)),
      learner_(inputs.student, heads_.teacher_UX, real_ids_, recipe) {
  if (inputs.teacher) teacher_.emplace(*inputs.teacher, real_ids_);
}

Rollout Stages::write(const std::vector<Prompt>& prompts, std::int64_t step) {
  if (recipe_.sft()) return given_responses(prompts, static_cast<std::uint32_t>(step));
  const engine::Sampling sampling{.n = recipe_.rollout.n,
                                  .decoding = {recipe_.rollout.temperature, recipe_.rollout.top_p},
                                  .max_new_tokens = recipe_.rollout.max_new_tokens,
                                  .seed = recipe_.seed,
                                  .step = static_cast<std::uint32_t>(step)};
  return student_.generate(prompts, sampling, capture_options(recipe_.objective));
}

Scores Stages::score(Rollout& rollout) {
  if (!teacher_) return {};
  const bool again = recipe_.rollout.old_scores == OldScores::kRescore;
  return engine::score_rollout(student_, *teacher_, rollout,
                               score_options(recipe_.objective, rollout, again, recipe_.seed, real_ids_));
}

Routes Stages::route(const Rollout& rollout, const Scores& scores) {
  if (!teacher_) return {};
  return route_rollout(rollout, scores, recipe_.objective, recipe_.seed, heads_);
}

UpdateResult Stages::learn(const Experience& experience) {
  const UpdateResult update = learner_.update(experience);
  student_.refresh();
  return update;
}

UpdateResult Stages::skip() {
  student_.refresh();  // what the engine holds may be what is not finite
  return learner_.skip();
}

Experience Stages::experience(const Rollout& rollout, const Scores& scores, const Routes& routes) const {
  if (!teacher_) return {.rollout = &rollout, .scores = nullptr, .routes = nullptr};
  return {.rollout = &rollout, .scores = &scores, .routes = &routes};
}

RunState Stages::resume(const std::filesystem::path& checkpoint, model::Model& student, const Json& inputs) {
  const RunState state = restore_checkpoint(checkpoint, student, learner_, inputs);
  student_.refresh();
  return state;
}

}  // namespace routeopd::train
