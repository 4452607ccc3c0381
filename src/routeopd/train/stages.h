// The stages of a step over one pair of models. The loop (train.cpp) calls them in turn; each takes what the
// one before it made.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "routeopd/train/checkpoint.h"
#include "routeopd/train/engines.h"
#include "routeopd/train/learner.h"
#include "routeopd/train/route_rollout.h"

namespace routeopd::train {

class Stages {
 public:
  // Trains inputs.student in place, together with the other ranks of `group`. Throws UserError for inputs
  // that the recipe cannot run on, and for engines that do not give what its arm needs.
  Stages(const Recipe& recipe, Inputs& inputs, Engines engines, ranks::Group& group = ranks::alone());

  // With the recipe's own engines.
  Stages(const Recipe& recipe, Inputs& inputs);

  // Hands the student's weights to the engine that writes, where they have changed since it got them: at the
  // start, after an update, after resume().
  void refresh();

  // Where the engines tell what happens while they work.
  void tell_to(const std::function<void(const std::string&)>& log);

  // What happened at the servers since the last call: "rollout_timeouts", "teacher_bad_answers".
  std::map<std::string, std::int64_t> take_counts();

  // The student's responses to a rank's prompts, of which there may be none; for the sft arm, the given ones.
  Rollout write(const std::vector<Prompt>& prompts, std::int64_t step);

  // Both empty for the sft arm, which has no teacher.
  Scores score(Rollout& rollout);
  Routes route(const Rollout& rollout,
               const Scores& scores);  // unrouted() where recipe.makes_routes() is false

  UpdateResult learn(const Experience& experience);
  UpdateResult skip();  // a step that has nothing to learn from

  // What the learner and the metrics see of a step: no scores and routes where there is no teacher.
  Experience experience(const Rollout& rollout, const Scores& scores, const Routes& routes) const;

  const Learner& learner() const { return learner_; }

  // Resumes from a checkpoint of `student`, the model that these stages train.
  RunState resume(const std::filesystem::path& checkpoint, model::Model& student, const Json& inputs);

  // Rank 0's weights, optimizer state and counters on every rank, after it has resumed.
  void share(model::Model& student);

 private:
  // Whether the student's side of the routes is the learner's, and not its engine's.
  bool own_values() const { return recipe_.rollout.student_values == StudentValues::kLearner; }

  Recipe recipe_;  // resolved
  ranks::Group& group_;
  std::int32_t real_ids_;
  Engines engines_;
  Heads heads_;
  Learner learner_;
  bool weights_changed_ = true;  // since refresh()
};

}  // namespace routeopd::train
