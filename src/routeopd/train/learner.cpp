// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/learner.h"

#include <algorithm>
#include <cmath>

#include "routeopd/train/minibatches.h"
#include "routeopd/train/schedule.h"

namespace routeopd::train {

namespace {

// With values of the learner's own for the routes: it has read every state, in its first forward over the
// batch.
objective::EngineGap gap_of(const Experience& experience) {
  const Rollout& rollout = *experience.rollout;
  objective::GapMeter meter(rollout.states());
  for (std::size_t n = 0; n < rollout.id_N.size(); ++n) {
    if (experience.routes->validity_N[n] != Validity::kValid) continue;
    meter.logprob(static_cast<std::int64_t>(n), static_cast<double>(rollout.logprob_N[n]),
                  static_cast<double>(rollout.written_logprob_N()[n]));
  }
  return meter.total();
}

}  // namespace

Learner::Learner(model::Model& student, at::Tensor teacher_head_UX, std::int32_t real_ids,
                 const Recipe& recipe)
    : recipe_(resolved(recipe)),
      loss_gradients_(
          student, std::move(teacher_head_UX), real_ids,
          {.objective = recipe_.objective,
           .dtype = recipe_.student.dtype,
           .micro_tokens = recipe_.train.micro_tokens,
           .recompute = recipe_.train.recompute,
           .importance_cap =
               recipe_.rollout.rollout_correction == RolloutCorrection::kTruncate ? kLargestImportance : 0}),
      optimizer_(make_optimizer(model::trainable(student), recipe_.optimizer)) {}

std::unique_ptr<OldValues> Learner::own_old_values(const Experience& experience) {
  if (recipe_.rollout.old_scores != OldScores::kLearner || !loss_gradients_.reads_old()) return nullptr;
  auto values = std::make_unique<OldValues>();
  values->pair_NM = experience.routes->old_NM;
  values->support_L = experience.routes->support.old_logits_L;
  values->logprob_N = experience.rollout->logprob_N;
  // Values of the routes that are the learner's are those of this forward already.
  if (recipe_.rollout.student_values == StudentValues::kLearner) return values;
  const auto parts = minibatches_of(*experience.rollout, recipe_.train.minibatches);
  for (std::size_t part = 1; part < parts.size(); ++part)
    loss_gradients_.record(experience, parts[part].first, parts[part].second, *values);
  return values;
}

UpdateResult Learner::update(const Experience& experience) {
  UpdateResult update;
  double loss_sum = 0;
  const std::unique_ptr<OldValues> own = own_old_values(experience);
  for (std::int32_t epoch = 0; epoch < recipe_.train.epochs; ++epoch) {
    bool first = epoch == 0;
    for (const auto& [begin, end] : minibatches_of(*experience.rollout, recipe_.train.minibatches)) {
      const BatchResult batch =
          loss_gradients_.accumulate(experience, begin, end, {.values = own.get(), .first = first});
      const bool finite = std::isfinite(batch.loss);
      if (first && finite && batch.changes > 0 && !own)
        update.capture_error = std::sqrt(batch.change_squares / static_cast<double>(batch.changes));
      if (first && finite) update.gap = batch.gap;
      first = false;
      if (epoch == 0 && finite) {
        loss_sum += batch.loss * static_cast<double>(batch.states);
        update.states += batch.states;
      }
      update.floored += batch.floored;
      apply(batch, learning_rate(recipe_.optimizer, scheduled_++, recipe_.updates()), update);
      loss_gradients_.clear();
    }
  }
  if (experience.routes != nullptr && recipe_.rollout.student_values == StudentValues::kLearner)
    update.gap = gap_of(experience);
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
