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

// Updates that were left out: weights and moments stay as they were.
struct Skipped {
  std::int64_t no_valid_state = 0;  // or none at all
  std::int64_t loss = 0;            // not finite, or a value behind it
  std::int64_t gradient = 0;        // not finite
  std::int64_t total() const { return no_valid_state + loss + gradient; }
};

struct UpdateResult {
  double loss = 0;          // of the first pass over the step's data, a valid state
  std::int64_t states = 0;  // behind it
  double grad_norm = 0;     // before the clip, largest of the updates made
  double lr = 0;            // of the last update
  // rms change of the values that the objective reads, at the first minibatch, where it should be 0; none where the
  // objective does not measure it
  std::optional<double> capture_error;
  std::int64_t floored = 0;  // teacher values at -inf that counted as log delta_p
  std::int64_t updates = 0;  // made
  Skipped skipped;
};

class Learner {
 public:
  // Trains `student` in place; it holds the weights in float32 whatever the type of the forward. `teacher_head` is for the
  // objectives over the whole vocabulary.
  Learner(model::Model& student, at::Tensor teacher_head_UG, std::int32_t real_ids, const Recipe& recipe);

  // epochs * minibatches updates on one step's data.
  UpdateResult update(const Experience& experience);

  // The same number of updates left out, for a step without data.
  UpdateResult skip();

  // Loss and gradients of responses [first, end) as one optimizer batch, added to gradients(); no update.
  BatchResult accumulate(const Experience& experience, std::size_t first, std::size_t end);

  // One a parameter of `student`, float32, in the order of model::parameters(). Those of the embedding and the head are the
  // learner's own buffers.
  std::vector<at::Tensor> gradients();
  void clear_gradients();

  const AdamW& optimizer() const { return optimizer_; }

  // Updates that the schedule has counted, those left out included.
  std::int64_t scheduled() const { return scheduled_; }

  // Goes on where another learner was: after the student's weights and the optimizer's moments were put in place.
  void resume(std::int64_t scheduled, std::int64_t updates);

 private:
  void micro_batch(const Experience& experience, std::size_t first, std::size_t end,
                   const std::vector<std::int32_t>& actions, double denominator,
                   objective::ObjectiveResult& result);
  void apply(const BatchResult& batch, double lr, UpdateResult& update);
  void collect_rounded_gradients();
  bool rounded() const { return !working_.norm_H.is_same(student_.norm_H); }
  model::HeadGradient& embedding_gradient() {
    return embedding_gradient_ ? *embedding_gradient_ : head_gradient_;
  }

  model::Model& student_;
  model::Model working_;  // what the forward reads: the student itself, or its weights in bfloat16
  at::Tensor teacher_head_UG_;
  std::int32_t real_ids_;
  Recipe recipe_;
  std::vector<model::Parameter> parameters_;  // of the student
  std::unique_ptr<objective::Objective> objective_;
  // A token's embedding and the rows of the head that a loss reads are few rows of a large table: their gradient is one
  // persistent buffer, shared where the two are tied.
  model::HeadGradient head_gradient_;
  std::optional<model::HeadGradient> embedding_gradient_;
  std::vector<at::Tensor> sums_;  // float32 gradients of a bfloat16 forward; undefined for the tables
  AdamW optimizer_;
  std::int64_t scheduled_ = 0;
};

}  // namespace routeopd::train
