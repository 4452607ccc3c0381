// The stages of a step over one pair of models. The loop (train.cpp) calls them in turn; each takes what the one before it
// made.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/engine/local_engine.h"
#include "routeopd/train/checkpoint.h"
#include "routeopd/train/learner.h"
#include "routeopd/train/route_rollout.h"
#include "routeopd/train/train.h"

namespace routeopd::train {

class Stages {
 public:
  // Trains inputs.student in place. Throws UserError for inputs that the recipe cannot run on.
  Stages(const Recipe& recipe, Inputs& inputs);

  // The student's responses; for the sft arm, the given ones.
  Rollout write(const std::vector<Prompt>& prompts, std::int64_t step);

  // Both empty for the sft arm, which has no teacher.
  Scores score(Rollout& rollout);
  Routes route(const Rollout& rollout, const Scores& scores);

  UpdateResult learn(const Experience& experience);
  UpdateResult skip();  // a step that has nothing to learn from

  // What the learner and the metrics see of a step: no scores and routes where there is no teacher.
  Experience experience(const Rollout& rollout, const Scores& scores, const Routes& routes) const;

  const Learner& learner() const { return learner_; }

  // Goes on from a checkpoint of `student`, the model these stages train.
  RunState resume(const std::filesystem::path& checkpoint, model::Model& student, const Json& inputs);

 private:
  Recipe recipe_;
  std::int32_t real_ids_;
  engine::LocalEngine student_;
  std::optional<engine::LocalEngine> teacher_;
  Heads heads_;
  Learner learner_;
};

}  // namespace routeopd::train
