// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/learner.h"

#include <algorithm>
#include <cmath>

#include "routeopd/train/learner_device.h"
#include "routeopd/train/schedule.h"

namespace routeopd::train {

namespace {

void add_up(ranks::Group& group, BatchResult& batch) {
  if (group.alone()) return;
  objective::EngineGap& gap = batch.gap;
  const auto as_double = [](std::int64_t count) { return static_cast<double>(count); };
  const std::vector<double> sums = ranks::sum_of(
      group, {batch.loss, batch.change_squares, as_double(batch.changes), as_double(batch.floored),
              gap.logprob_squares, as_double(gap.logprobs), gap.log_odds_squares, as_double(gap.log_odds),
              as_double(gap.states), as_double(gap.past)});
  const auto as_count = [&](std::size_t i) { return static_cast<std::int64_t>(sums[i]); };
  batch.loss = sums[0];
  batch.change_squares = sums[1];
  batch.changes = as_count(2);
  batch.floored = as_count(3);
  gap = {.logprob_squares = sums[4],
         .logprobs = as_count(5),
         .log_odds_squares = sums[6],
         .log_odds = as_count(7),
         .states = as_count(8),
         .past = as_count(9)};
}

// With values of the learner's own for the routes: it has read every state, in its first forward over the
// batch.
objective::EngineGap gap_of(const Experience& experience, ranks::Group& group) {
  const Rollout& rollout = *experience.rollout;
  objective::GapMeter meter(rollout.states());
  for (std::size_t n = 0; n < rollout.id_N.size(); ++n) {
    if (experience.routes->validity_N[n] != Validity::kValid) continue;
    meter.logprob(static_cast<std::int64_t>(n), static_cast<double>(rollout.logprob_N[n]),
                  static_cast<double>(rollout.written_logprob_N()[n]));
  }
  BatchResult all;
  all.gap = meter.total();
  add_up(group, all);
  return all.gap;
}

}  // namespace

StepSize step_size_of(const Recipe& recipe, const ranks::Group& group) {
  if (group.alone()) return {};
  return {.prompts = recipe.rollout.prompts_per_step, .n = recipe.sft() ? 1 : recipe.rollout.n};
}

Learner::Learner(model::Model& student, at::Tensor teacher_head_UX, std::int32_t real_ids,
                 const Recipe& recipe, ranks::Group& group, model::Backend heads)
    : recipe_(resolved(recipe)),
      group_(group),
      step_size_(step_size_of(recipe_, group)),
      student_(student),
      learned_(model::model_on(student, device_named(recipe_.student.device))),
      loss_gradients_(
          learned_, std::move(teacher_head_UX), real_ids,
          {.objective = recipe_.objective,
           .dtype = recipe_.student.dtype,
           .micro_tokens = recipe_.train.micro_tokens,
           .recompute = recipe_.train.recompute,
           .importance_cap =
               recipe_.rollout.rollout_correction == RolloutCorrection::kTruncate ? kLargestImportance : 0,
           .heads = heads}),
      optimizer_(make_optimizer(model::trainable(learned_), recipe_.optimizer)) {}

std::unique_ptr<OldValues> Learner::own_old_values(const Experience& experience) {
  if (recipe_.rollout.old_scores != OldScores::kLearner || !loss_gradients_.reads_old()) return nullptr;
  auto values = std::make_unique<OldValues>();
  values->pair_NM = experience.routes->old_NM;
  values->support_L = experience.routes->support.old_logits_L;
  values->logprob_N = experience.rollout->logprob_N;
  // Values of the routes that are the learner's are those of this forward already.
  if (recipe_.rollout.student_values == StudentValues::kLearner) return values;
  const auto parts = minibatches_of(*experience.rollout, recipe_.train.minibatches, step_size_);
  for (std::size_t part = 1; part < parts.size(); ++part)
    loss_gradients_.record(experience, parts[part].first, parts[part].second, *values);
  return values;
}

UpdateResult Learner::update(const Experience& experience) {
  UpdateResult update;
  double loss_sum = 0;
  const std::unique_ptr<OldValues> own = own_old_values(experience);
  const auto parts = minibatches_of(*experience.rollout, recipe_.train.minibatches, step_size_);
  std::vector<double> states;  // of each part, over all ranks: known before the first forward
  for (const auto& [begin, end] : parts)
    states.push_back(static_cast<double>(valid_states(experience, begin, end)));
  states = ranks::sum_of(group_, std::move(states));
  for (std::int32_t epoch = 0; epoch < recipe_.train.epochs; ++epoch) {
    bool first = epoch == 0;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const BatchResult batch = accumulate(experience, parts[part], static_cast<std::int64_t>(states[part]),
                                           {.values = own.get(), .first = first});
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
    update.gap = gap_of(experience, group_);
  if (update.states > 0) update.loss = loss_sum / static_cast<double>(update.states);
  if (!learned_.device().is_cpu()) model::copy_weights(learned_, student_);
  return update;
}

// Loss and gradients of this rank's part of an optimizer batch; what is returned is of all ranks, the
// gradients stay this rank's.
BatchResult Learner::accumulate(const Experience& experience, std::pair<std::size_t, std::size_t> part,
                                std::int64_t states, const OldPass& old) {
  BatchResult batch = loss_gradients_.accumulate(experience, part.first, part.second, old, states);
  add_up(group_, batch);
  return batch;
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
  update.exchanged.add(add_up_gradients(group_, loss_gradients_, grads));
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
  if (!learned_.device().is_cpu()) model::copy_weights(student_, learned_);
  optimizer_->resume(updates);
  loss_gradients_.refresh();
}

}  // namespace routeopd::train
