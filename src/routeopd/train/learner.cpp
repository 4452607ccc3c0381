// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/learner.h"

#include <algorithm>
#include <cmath>

#include "routeopd/train/schedule.h"

namespace routeopd::train {

Learner::Learner(model::Model& student, at::Tensor teacher_head_UX, std::int32_t real_ids,
                 const Recipe& recipe)
    : recipe_(recipe),
      loss_gradients_(student, std::move(teacher_head_UX), real_ids,
                      {.objective = recipe.objective,
                       .dtype = recipe.student.dtype,
                       .micro_tokens = recipe.train.micro_tokens,
                       .recompute = recipe.train.recompute}),
      optimizer_(make_optimizer(model::trainable(student), recipe.optimizer)) {}

UpdateResult Learner::update(const Experience& experience) {
  const std::size_t responses = experience.rollout->responses_B.size();
  const auto parts = std::min(static_cast<std::size_t>(recipe_.train.minibatches), responses);
  UpdateResult update;
  double loss_sum = 0;
  for (std::int32_t epoch = 0; epoch < recipe_.train.epochs; ++epoch) {
    for (std::size_t part = 0; part < parts; ++part) {
      const BatchResult batch =
          loss_gradients_.accumulate(experience, responses * part / parts, responses * (part + 1) / parts);
      const bool finite = std::isfinite(batch.loss);
      if (epoch == 0 && part == 0 && finite && batch.changes > 0)
        update.capture_error = std::sqrt(batch.change_squares / static_cast<double>(batch.changes));
      if (epoch == 0 && finite) {
        loss_sum += batch.loss * static_cast<double>(batch.states);
        update.states += batch.states;
      }
      update.floored += batch.floored;
      apply(batch, learning_rate(recipe_.optimizer, scheduled_++, recipe_.updates()), update);
      loss_gradients_.clear();
    }
  }
  if (update.states > 0) update.loss = loss_sum / static_cast<double>(update.states);
  return update;
}

UpdateResult Learner::skip() {
  UpdateResult update;
  for (std::int32_t i = 0; i < recipe_.train.minibatches * recipe_.train.epochs; ++i)
    apply({}, learning_rate(recipe_.optimizer, scheduled_++, recipe_.updates()), update);
  return update;
}

// One optimizer update, or none and the reason counted.
void Learner::apply(const BatchResult& batch, double lr, UpdateResult& update) {
  update.lr = lr;
  if (batch.states == 0) {  // AdamW would decay the weights and follow old moments without a gradient
    ++update.skipped.no_valid_state;
    return;
  }
  if (!std::isfinite(batch.loss)) {
    ++update.skipped.loss;
    return;
  }
  std::vector<at::Tensor> grads = loss_gradients_.gradients();
  const double norm = optimizer_->step(grads, lr);
  if (!std::isfinite(norm)) {
    ++update.skipped.gradient;
    return;
  }
  ++update.updates;
  update.grad_norm = std::max(update.grad_norm, norm);
  loss_gradients_.refresh();
}

void Learner::resume(std::int64_t scheduled, std::int64_t updates) {
  scheduled_ = scheduled;
  optimizer_->resume(updates);
  loss_gradients_.refresh();
}

}  // namespace routeopd::train
