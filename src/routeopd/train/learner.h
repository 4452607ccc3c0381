// The learning stage: one optimizer update per minibatch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "routeopd/model/model.h"
#include "routeopd/ranks/group.h"
#include "routeopd/train/exchange.h"
#include "routeopd/train/loss_gradients.h"
#include "routeopd/train/minibatches.h"
#include "routeopd/train/optimizer.h"
#include "routeopd/train/recipe.h"

namespace routeopd::train {

// Updates that were not made: weights and optimizer stay as they were.
struct SkippedUpdates {
  std::int64_t no_valid_state = 0;
  std::int64_t loss = 0;      // not finite
  std::int64_t gradient = 0;  // not finite
  std::int64_t total() const { return no_valid_state + loss + gradient; }
};

// Of all ranks together, and the same on each.
struct UpdateResult {
  double loss = 0;          // per valid state, over the first pass over the step's data
  std::int64_t states = 0;  // valid ones with a finite loss, which it is the mean of
  double grad_norm = 0;     // before the clip, the largest of the updates made
  double lr = 0;            // of the last update
  // rms change of the values that the objective reads, at the first minibatch, where it should be 0; none
  // where the objective does not measure it, and where it is 0 by definition (old values of the learner)
  std::optional<double> capture_error;
  objective::EngineGap gap;  // of the learner's values and those of the engine that wrote
  std::int64_t floored = 0;  // teacher values at -inf that counted as log delta_p
  std::int64_t updates = 0;  // made
  SkippedUpdates skipped;
  Exchanged exchanged;  // with the other ranks
};

// What the ranks of a group answer together in a step.
StepSize step_size_of(const Recipe& recipe, const ranks::Group& group);

class Learner {
 public:
  // Trains the weights model::trainable(student), in float32 whatever the type of the forward: in place on
  // the CPU; on another device ([student] device) a copy there, whose values are brought back to `student`
  // after each update(). `teacher_head` is for the objectives over the whole vocabulary. The ranks of `group`
  // learn together, each from its share of a step's responses, and hold equal weights after every update.
  Learner(model::Model& student, at::Tensor teacher_head_UX, std::int32_t real_ids, const Recipe& recipe,
          ranks::Group& group = ranks::alone(), model::Backend heads = model::Backend::kAuto);

  Learner(const Learner&) = delete;  // its parts refer to one another
  Learner& operator=(const Learner&) = delete;

  // epochs * minibatches updates on one step's data.
  UpdateResult update(const Experience& experience);

  // As many skipped updates, for a step without data.
  UpdateResult skip();

  // Loss and gradients without an update.
  LossGradients& loss_gradients() { return loss_gradients_; }
  const LossGradients& loss_gradients() const { return loss_gradients_; }

  const Optimizer& optimizer() const { return *optimizer_; }

  at::Device device() const { return learned_.device(); }

  // Updates that the schedule has counted, skipped ones included.
  std::int64_t scheduled() const { return scheduled_; }

  // Continues where another learner was, once the student's weights and the optimizer's state are in place.
  void resume(std::int64_t scheduled, std::int64_t updates);

 private:
  // Where old values are the learner's own: those of the responses that a first minibatch does not cover, by
  // its forward as it is now. Null where they are the experience's.
  std::unique_ptr<OldValues> own_old_values(const Experience& experience);
  BatchResult accumulate(const Experience& experience, std::pair<std::size_t, std::size_t> part,
                         std::int64_t states, const OldPass& old);
  void apply(const BatchResult& batch, double lr, UpdateResult& update);

  Recipe recipe_;
  ranks::Group& group_;
  StepSize step_size_;
  model::Model& student_;  // on the host
  model::Model learned_;   // the same tensors, or their copies on the device
  LossGradients loss_gradients_;
  std::unique_ptr<Optimizer> optimizer_;
  std::int64_t scheduled_ = 0;
};

}  // namespace routeopd::train
