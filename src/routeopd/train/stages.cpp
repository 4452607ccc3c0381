// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/stages.h"

#include <utility>

#include "routeopd/engine/score_rollout.h"
#include "routeopd/train/learner_values.h"

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

// Refuses, before anything of the run is made, what cannot run.
const Inputs& checked(const Recipe& recipe, const Inputs& inputs, const Engines& engines) {
  check_inputs(recipe, inputs);
  check_engines(recipe, engines, inputs.real_ids);
  return inputs;
}

}  // namespace

Stages::Stages(const Recipe& recipe, Inputs& inputs, Engines engines, ranks::Group& group)
    : recipe_(resolved(recipe)),
      group_(group),
      real_ids_(checked(recipe, inputs, engines).real_ids),
      engines_(std::move(engines)),
      heads_{.student_VH = inputs.student.head_VH,
             .teacher_UX = engines_.teacher_head_UX(),
             .real_ids = real_ids_},
      learner_(inputs.student, heads_.teacher_UX, real_ids_, recipe, group) {}

Stages::Stages(const Recipe& recipe, Inputs& inputs) : Stages(recipe, inputs, make_engines(recipe, inputs)) {}

Rollout Stages::write(const std::vector<Prompt>& prompts, std::int64_t step) {
  if (recipe_.sft()) return given_responses(prompts, static_cast<std::uint32_t>(step));
  refresh();
  if (prompts.empty()) return {};
  const engine::Sampling sampling{.n = recipe_.rollout.n,
                                  .decoding = {recipe_.rollout.temperature, recipe_.rollout.top_p},
                                  .max_new_tokens = recipe_.rollout.max_new_tokens,
                                  .seed = recipe_.seed,
                                  .step = static_cast<std::uint32_t>(step)};
  const engine::Capabilities able = engines_.student->capabilities();
  engine::Capture capture;
  if (recipe_.makes_routes() && !own_values()) {
    capture = capture_options(recipe_.objective);
    capture.hidden = able.hidden_states;
  }
  capture.entropy = able.entropy;
  Rollout rollout = engines_.student->generate(prompts, sampling, capture);
  engine::add_teachers(rollout, prompts);
  return rollout;
}

Scores Stages::score(Rollout& rollout) {
  if (recipe_.sft() || rollout.responses_B.empty()) return {};
  LearnerValues own(learner_.loss_gradients().working(), real_ids_,
                    {.micro_tokens = recipe_.train.micro_tokens,
                     .minibatches = recipe_.train.minibatches,
                     .step = step_size_of(recipe_, group_)});
  engine::Engine& student = own_values() ? own : *engines_.student;
  // A pool is drawn outside the student's top-k: that has to be there before it.
  if (own_values())
    engine::rescore(own, rollout, recipe_.makes_routes() ? capture_options(recipe_.objective).k : 0);
  const bool again = recipe_.rollout.old_scores == OldScores::kRescore;
  const engine::ScoreOptions options =
      recipe_.makes_routes() ? score_options(recipe_.objective, rollout, again, recipe_.seed, real_ids_)
                             : taken_score_options(recipe_.objective, again);
  return engine::score_rollout(student, engines_.scorers(), rollout, options);
}

Routes Stages::route(const Rollout& rollout, const Scores& scores) {
  if (recipe_.sft() || rollout.responses_B.empty()) return {};
  if (!recipe_.makes_routes()) return unrouted(scores);
  Heads heads = heads_;
  // Routes are made on the host; the head is read for k = "full" alone.
  if (own_values() && recipe_.objective.k == routing::kFullSupport)
    heads.student_VH = learner_.loss_gradients().working().head_VH.to(at::kCPU);
  return route_rollout(rollout, scores, recipe_.objective, recipe_.seed, heads);
}

void Stages::refresh() {
  if (!weights_changed_ || recipe_.sft()) return;
  engines_.student->refresh();
  weights_changed_ = false;
}

void Stages::tell_to(const std::function<void(const std::string&)>& log) {
  engines_.student->tell_to(log);
  for (const TeacherEngine& teacher : engines_.teachers)
    if (teacher.engine) teacher.engine->tell_to(log);
}

std::map<std::string, std::int64_t> Stages::take_counts() {
  std::map<std::string, std::int64_t> all;
  for (const auto& [name, count] : engines_.student->take_counts()) all["rollout_" + name] += count;
  for (const TeacherEngine& teacher : engines_.teachers) {
    if (!teacher.engine) continue;
    const std::string of = teacher.name.empty() ? "teacher_" : fmt::format("teacher_{}_", teacher.name);
    for (const auto& [name, count] : teacher.engine->take_counts()) all[of + name] += count;
  }
  return all;
}

UpdateResult Stages::learn(const Experience& experience) {
  const UpdateResult update = learner_.update(experience);
  weights_changed_ = true;
  return update;
}

UpdateResult Stages::skip() {
  weights_changed_ = true;  // the engine's copy of the weights may be what is not finite
  return learner_.skip();
}

Experience Stages::experience(const Rollout& rollout, const Scores& scores, const Routes& routes) const {
  if (recipe_.sft()) return {.rollout = &rollout, .scores = nullptr, .routes = nullptr};
  return {.rollout = &rollout, .scores = &scores, .routes = &routes};
}

RunState Stages::resume(const std::filesystem::path& checkpoint, model::Model& student, const Json& inputs) {
  const RunState state = restore_checkpoint(checkpoint, student, learner_, inputs);
  weights_changed_ = true;
  return state;
}

void Stages::share(model::Model& student) {
  std::vector<at::Tensor> tensors;
  for (const model::Parameter& weight : model::trainable(student)) tensors.push_back(weight.tensor.detach());
  for (const model::Parameter& part : learner_.optimizer().state()) tensors.push_back(part.tensor);
  group_.share(tensors);
  const at::Tensor counters = at::tensor({learner_.scheduled(), learner_.optimizer().updates()}, at::kLong);
  group_.share({counters});
  learner_.resume(counters[0].item<std::int64_t>(), counters[1].item<std::int64_t>());
  weights_changed_ = true;
}

}  // namespace routeopd::train
