//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/learner.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "routeopd/base/error.h"
#include "routeopd/model/decoder.h"
#include "routeopd/model/response_batch.h"
#include "routeopd/train/schedule.h"

namespace routeopd::train {
namespace {

bool is_valid(const Experience& experience, std::size_t state) {
  return experience.routes == nullptr || experience.routes->validity_N[state] == Validity::kValid;
}

std::pair<std::size_t, std::size_t> states_of(const Rollout& rollout, std::size_t first, std::size_t end) {
  const Response& last = rollout.responses_B[end - 1];
  return {static_cast<std::size_t>(rollout.responses_B[first].first_state),
          static_cast<std::size_t>(last.first_state + last.length)};
}

}  // namespace

Learner::Learner(model::Model& student, at::Tensor teacher_head_UG, std::int32_t real_ids,
                 const Recipe& recipe)
    : student_(student),
      teacher_head_UG_(std::move(teacher_head_UG)),
      real_ids_(real_ids),
      recipe_(recipe),
      parameters_(model::parameters(student)),
      objective_(objective::make_objective(recipe.objective)),
      head_gradient_(at::zeros_like(student.head_VH, at::kFloat)),
      optimizer_(parameters_, recipe.optimizer) {
  for (model::Parameter& parameter : parameters_) parameter.tensor.set_requires_grad(true);
}

UpdateResult Learner::update(const Experience& experience) {
  const std::size_t responses = experience.rollout->responses_B.size();
  const auto parts = std::min(static_cast<std::size_t>(recipe_.train.minibatches), responses);
  UpdateResult update;
  double loss_sum = 0, states = 0;
  for (std::int32_t epoch = 0; epoch < recipe_.train.epochs; ++epoch) {
    for (std::size_t part = 0; part < parts; ++part) {
      const BatchResult result =
          accumulate(experience, responses * part / parts, responses * (part + 1) / parts);
      if (epoch == 0 && part == 0 && result.changes > 0)
        update.capture_error = std::sqrt(result.change_squares / static_cast<double>(result.changes));
      if (epoch == 0) {
        loss_sum += result.loss * static_cast<double>(result.states);
        states += static_cast<double>(result.states);
      }
      update.floored += result.floored;
      if (result.states == 0) {  // without a gradient AdamW would decay the weights and follow old moments
        ++update.skipped;
        continue;
      }
      update.lr = learning_rate(recipe_.optimizer, optimizer_.updates(), recipe_.updates());
      std::vector<at::Tensor> grads = gradients();
      const double norm = optimizer_.step(grads, update.lr);
      update.skipped += std::isfinite(norm) ? 0 : 1;
      update.grad_norm = std::isfinite(norm) ? std::max(update.grad_norm, norm) : norm;
      clear_gradients();
    }
  }
  if (states > 0) update.loss = loss_sum / states;
  return update;
}

BatchResult Learner::accumulate(const Experience& experience, std::size_t first, std::size_t end) {
  const Rollout& rollout = *experience.rollout;
  const auto [first_state, end_state] = states_of(rollout, first, end);
  std::vector<std::int32_t> actions = rollout.id_N;  // -1 where a state takes no part
  double denominator = 0;
  for (std::size_t n = first_state; n < end_state; ++n) {
    if (is_valid(experience, n)) {
      ++denominator;
    } else {
      actions[n] = -1;
    }
  }
  BatchResult result;
  result.states = static_cast<std::int64_t>(denominator);
  if (denominator == 0) return result;
  for (std::size_t begin = first; begin < end;) {
    const std::size_t next = model::portion_end(rollout, begin, end, recipe_.train.micro_tokens);
    micro_batch(experience, begin, next, actions, denominator, result);
    begin = next;
  }
  return result;
}

void Learner::micro_batch(const Experience& experience, std::size_t first, std::size_t end,
                          const std::vector<std::int32_t>& actions, double denominator,
                          objective::ObjectiveResult& result) {
  const Rollout& rollout = *experience.rollout;
  const model::ResponseBatch responses = model::pack_responses(rollout, first, end);
  const auto activations =
      recipe_.train.recompute ? model::Activations::kRecompute : model::Activations::kKeep;
  at::Tensor hidden_TH;
  {
    const c10::AutoGradMode with_grad(true);
    hidden_TH =
        model::packed_hidden(student_, responses.packed, activations).index_select(0, responses.state_places);
  }
  const c10::NoGradGuard no_grad;
  objective::LearnerBatch batch;
  batch.hidden_TH = hidden_TH.detach();
  batch.weight_VH = student_.head_VH.detach();
  batch.real_ids = real_ids_;
  batch.denominator = denominator;
  batch.routes = experience.routes;
  batch.first_state = responses.first_state;
  batch.sampled_id_T = actions.data();
  batch.sampled_old_logprob_T = rollout.logprob_N.data();
  if (experience.scores != nullptr) {
    const Scores& scores = *experience.scores;
    batch.sampled_teacher_logprob_T = scores.teacher_logprob_N.data();
    if (scores.hidden_size > 0) {
      float* const rows =
          const_cast<float*>(scores.hidden_NG.data()) + responses.first_state * scores.hidden_size;
      batch.teacher_hidden_TG =
          at::from_blob(rows, {responses.end_state - responses.first_state, scores.hidden_size}, at::kFloat);
      batch.teacher_weight_UG = teacher_head_UG_;
    }
  }
  at::Tensor grad_TH = at::empty_like(batch.hidden_TH);
  const objective::ObjectiveResult part = objective_->step(batch, grad_TH, head_gradient_);
  hidden_TH.backward(grad_TH);
  result.loss += part.loss;
  result.change_squares += part.change_squares;
  result.changes += part.changes;
  result.floored += part.floored;
}

std::vector<at::Tensor> Learner::gradients() {
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> all;
  for (const model::Parameter& parameter : parameters_) {
    const bool is_head = parameter.tensor.is_same(student_.head_VH);
    at::Tensor grad = parameter.tensor.grad();
    if (is_head) {
      // A tied head has two gradients: as the embedding, by autograd, and as the head.
      grad = grad.defined() ? grad + head_gradient_.tensor() : head_gradient_.tensor().clone();
    }
    all.push_back(grad.defined() ? grad : at::zeros_like(parameter.tensor));
  }
  return all;
}

void Learner::clear_gradients() {
  for (model::Parameter& parameter : parameters_) parameter.tensor.mutable_grad().reset();
  head_gradient_.clear();
}

}  // namespace routeopd::train
