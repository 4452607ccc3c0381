// The learning stage: one optimizer update a minibatch.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "routeopd/model/model.h"
#include "routeopd/train/loss_gradients.h"
#include "routeopd/train/optimizer.h"
#include "routeopd/train/recipe.h"

namespace routeopd::train {

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
  Learner(model::Model& student, at::Tensor teacher_head_UX, std::int32_t real_ids, const Recipe& recipe);

  // epochs * minibatches updates on one step's data.
  UpdateResult update(const Experience& experience);

  // The same number of updates left out, for a step without data.
  UpdateResult skip();

  // Loss and gradients alone, for what looks into a step.
  LossGradients& pass() { return pass_; }

  const AdamW& optimizer() const { return optimizer_; }

  // Updates that the schedule has counted, those left out included.
  std::int64_t scheduled() const { return scheduled_; }

  // Goes on where another learner was: after the student's weights and the optimizer's moments were put in place.
  void resume(std::int64_t scheduled, std::int64_t updates);

 private:
  void apply(const BatchResult& batch, double lr, UpdateResult& update);

  Recipe recipe_;
  LossGradients pass_;
  AdamW optimizer_;
  std::int64_t scheduled_ = 0;
};

}  // namespace routeopd::train
