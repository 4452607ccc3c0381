// The learning stage: the student's forward over packed micro-batches, the objective through its head, one optimizer
// update a minibatch.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "routeopd/model/model.h"
#include "routeopd/objective/objective.h"
#include "routeopd/train/optimizer.h"
#include "routeopd/train/recipe.h"
#include "routeopd/types/rollout.h"
#include "routeopd/types/routes.h"
#include "routeopd/types/scores.h"

namespace routeopd::train {

// The frozen data of a step. `scores` and `routes` are null for the sft arm.
struct Experience {
  const Rollout* rollout = nullptr;
  const Scores* scores = nullptr;
  const Routes* routes = nullptr;
};

// One optimizer batch.
struct BatchResult : objective::ObjectiveResult {
  std::int64_t states = 0;  // valid ones: the denominator
};

struct UpdateResult {
  double loss = 0;       // of the first pass over the step's data, a valid state
  double grad_norm = 0;  // before the clip, largest of the step's updates
  double lr = 0;         // of the last update
  // rms change of the values that the objective reads, at the first minibatch, where it should be 0; none where the
  // objective does not measure it
  std::optional<double> capture_error;
  std::int64_t floored = 0;  // teacher values at -inf that counted as log delta_p
  std::int64_t skipped = 0;  // updates left out: no valid state, or a gradient that is not finite
};

class Learner {
 public:
  // Trains `student` in place. `teacher_head` is for the objectives over the whole vocabulary.
  Learner(model::Model& student, at::Tensor teacher_head_UG, std::int32_t real_ids, const Recipe& recipe);

  // epochs * minibatches updates on one step's data.
  UpdateResult update(const Experience& experience);

  // Loss and gradients of responses [first, end) as one optimizer batch, added to gradients(); no update.
  BatchResult accumulate(const Experience& experience, std::size_t first, std::size_t end);

  // One a parameter of `student`, in the order of model::parameters().
  std::vector<at::Tensor> gradients();
  void clear_gradients();

  const AdamW& optimizer() const { return optimizer_; }

 private:
  void micro_batch(const Experience& experience, std::size_t first, std::size_t end,
                   const std::vector<std::int32_t>& actions, double denominator,
                   objective::ObjectiveResult& result);

  model::Model& student_;
  at::Tensor teacher_head_UG_;
  std::int32_t real_ids_;
  Recipe recipe_;
  std::vector<model::Parameter> parameters_;
  std::unique_ptr<objective::Objective> objective_;
  model::HeadGradient head_gradient_;
  AdamW optimizer_;
};

}  // namespace routeopd::train
