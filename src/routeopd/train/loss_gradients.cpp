// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/loss_gradients.h"

#include <c10/core/GradMode.h>

#include "routeopd/base/error.h"
#include "routeopd/model/decoder.h"
#include "routeopd/model/packed_batch.h"

namespace routeopd::train {
namespace {

bool is_valid(const Experience& experience, std::size_t state) {
  return experience.routes == nullptr || experience.routes->validity_N[state] == Validity::kValid;
}

std::pair<std::size_t, std::size_t> states_of(const Rollout& rollout, std::size_t first, std::size_t end) {
  if (first == end) return {0, 0};
  const Response& last = rollout.responses_B[end - 1];
  return {static_cast<std::size_t>(rollout.responses_B[first].first_state),
          static_cast<std::size_t>(last.first_state + last.length)};
}

// The rows of a table that the tokens of a forward read, once each: its gradient is the sum of theirs.
std::vector<kernels::RowVisit> visits_of(const at::Tensor& ids_T) {
  std::vector<kernels::RowVisit> visits;
  const std::span ids(ids_T.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(ids_T.numel()));
  for (std::size_t t = 0; t < ids.size(); ++t)
    visits.push_back({static_cast<std::int32_t>(ids[t]), static_cast<std::int32_t>(t), 1.0F});
  return visits;
}

at::Tensor zero_table(const at::Tensor& table_VH) {
  return at::zeros_like(table_VH, at::kFloat);
}

}  // namespace

LossGradients::LossGradients(model::Model& student, at::Tensor teacher_head_UX, std::int32_t real_ids,
                             const GradientOptions& options)
    : student_(student),
      working_(options.dtype == Dtype::kBfloat16 ? model::rounded_model(student, at::kBFloat16) : student),
      teacher_head_UX_(teacher_head_UX.defined() ? teacher_head_UX.to(student.device()) : at::Tensor()),
      real_ids_(real_ids),
      options_(options),
      parameters_(model::trainable(student)),
      objective_(objective::make_objective(options.objective, options.heads)),
      head_gradient_(zero_table(student.head_VH)) {
  if (!student.embed_VH.is_same(student.head_VH)) embedding_gradient_.emplace(zero_table(student.embed_VH));
  for (model::Parameter& parameter : model::trainable(working_)) {
    const bool table =
        parameter.tensor.is_same(working_.head_VH) || parameter.tensor.is_same(working_.embed_VH);
    parameter.tensor.set_requires_grad(!table);
    if (rounded()) sums_.push_back(table ? at::Tensor() : at::zeros_like(parameter.tensor, at::kFloat));
  }
}

void LossGradients::refresh() {
  if (rounded()) model::copy_weights(student_, working_);
}

std::int64_t valid_states(const Experience& experience, std::size_t first, std::size_t end) {
  const auto [first_state, end_state] = states_of(*experience.rollout, first, end);
  std::int64_t count = 0;
  for (std::size_t n = first_state; n < end_state; ++n) count += is_valid(experience, n) ? 1 : 0;
  return count;
}

LossGradients::Part LossGradients::part_of(const Experience& experience, std::size_t first, std::size_t end) {
  const auto [first_state, end_state] = states_of(*experience.rollout, first, end);
  Part part;
  part.actions_N = experience.rollout->id_N;
  for (std::size_t n = first_state; n < end_state; ++n) {
    if (is_valid(experience, n)) {
      ++part.denominator;
    } else {
      part.actions_N[n] = -1;
    }
  }
  return part;
}

BatchResult LossGradients::accumulate(const Experience& experience, std::size_t first, std::size_t end,
                                      const OldPass& old, std::optional<std::int64_t> states) {
  const Rollout& rollout = *experience.rollout;
  Part part = part_of(experience, first, end);
  BatchResult result;
  result.states = states.value_or(static_cast<std::int64_t>(part.denominator));
  if (part.denominator == 0) return result;
  part.denominator = static_cast<double>(result.states);
  for (std::size_t begin = first; begin < end;) {
    const std::size_t next = model::portion_end(rollout, begin, end, options_.micro_tokens);
    micro_batch(experience, begin, next, part, old, result);
    begin = next;
  }
  return result;
}

void LossGradients::record(const Experience& experience, std::size_t first, std::size_t end,
                           OldValues& values) {
  const c10::NoGradGuard no_grad;
  const Rollout& rollout = *experience.rollout;
  const Part part = part_of(experience, first, end);
  if (part.denominator == 0) return;  // none of them is ever compared
  for (std::size_t begin = first; begin < end;) {
    const std::size_t next = model::portion_end(rollout, begin, end, options_.micro_tokens);
    const model::ResponseBatch responses =
        model::on_device(model::pack_responses(rollout, begin, next), working_.device());
    const at::Tensor hidden_TH =
        model::packed_hidden(working_, responses.packed).index_select(0, responses.state_places);
    objective_->record(learner_batch(experience, responses, part, hidden_TH, {&values, /*first=*/true}));
    begin = next;
  }
}

objective::LearnerBatch LossGradients::learner_batch(const Experience& experience,
                                                     const model::ResponseBatch& responses, const Part& part,
                                                     const at::Tensor& hidden_TH, const OldPass& old) const {
  const Rollout& rollout = *experience.rollout;
  objective::LearnerBatch batch;
  batch.hidden_TH = hidden_TH.detach();
  batch.weight_VH = working_.head_VH;
  batch.real_ids = real_ids_;
  batch.denominator = part.denominator;
  batch.routes = experience.routes;
  batch.first_state = responses.first_state;
  batch.sampled_id_N = part.actions_N.data();
  batch.sampled_old_logprob_N = rollout.logprob_N.data();
  batch.old = old.values;
  batch.first = old.first;
  batch.importance_cap = options_.importance_cap;
  if (experience.scores != nullptr) {
    const Scores& scores = *experience.scores;
    batch.engine_logprob_N = rollout.written_logprob_N().data();
    batch.sampled_teacher_logprob_N = scores.teacher_logprob_N.data();
    if (scores.hidden_size > 0) {
      float* const rows =
          const_cast<float*>(scores.hidden_NX.data()) + responses.first_state * scores.hidden_size;
      batch.teacher_hidden_TX =
          at::from_blob(rows, {responses.end_state - responses.first_state, scores.hidden_size}, at::kFloat)
              .to(working_.device());
      batch.teacher_weight_UX = teacher_head_UX_;
    }
  }
  return batch;
}

void LossGradients::micro_batch(const Experience& experience, std::size_t first, std::size_t end,
                                const Part& part, const OldPass& old, objective::ObjectiveResult& result) {
  const model::ResponseBatch on_host = model::pack_responses(*experience.rollout, first, end);
  const model::ResponseBatch responses = model::on_device(on_host, working_.device());
  const auto activations = options_.recompute ? model::Activations::kRecompute : model::Activations::kKeep;
  const at::Tensor embedded_TH =
      working_.embed_VH.index_select(0, responses.packed.ids_T).set_requires_grad(true);
  at::Tensor hidden_TH;
  {
    const c10::AutoGradMode with_grad(true);
    hidden_TH = model::packed_hidden(working_, responses.packed, embedded_TH, activations)
                    .index_select(0, responses.state_places);
  }
  const c10::NoGradGuard no_grad;
  const objective::LearnerBatch batch = learner_batch(experience, responses, part, hidden_TH, old);
  at::Tensor grad_TH = at::empty(batch.hidden_TH.sizes(), batch.hidden_TH.options().dtype(at::kFloat));
  const objective::ObjectiveResult more = objective_->step(batch, grad_TH, head_gradient_);
  hidden_TH.backward(grad_TH.to(hidden_TH.scalar_type()));
  embedding_gradient().add_visits(embedded_TH.grad(), visits_of(on_host.packed.ids_T), options_.heads);
  collect_rounded_gradients();
  result.loss += more.loss;
  result.change_squares += more.change_squares;
  result.changes += more.changes;
  result.floored += more.floored;
  result.gap.add(more.gap);
}

// A bfloat16 sum over many micro-batches would lose the small gradients: it is kept in float32.
void LossGradients::collect_rounded_gradients() {
  if (!rounded()) return;
  const std::vector<model::Parameter> parameters = model::trainable(working_);
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    at::Tensor& grad = parameters[i].tensor.mutable_grad();
    if (sums_[i].defined() && grad.defined()) sums_[i].add_(grad);
    grad.reset();
  }
}

std::vector<at::Tensor> LossGradients::gradients() {
  std::vector<at::Tensor> all;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& weight = parameters_[i].tensor;
    if (weight.is_same(student_.head_VH)) {
      all.push_back(head_gradient_.tensor());
    } else if (weight.is_same(student_.embed_VH)) {
      all.push_back(embedding_gradient_->tensor());
    } else {
      const at::Tensor grad = rounded() ? sums_[i] : weight.grad();
      all.push_back(grad.defined() ? grad : at::zeros_like(weight));
    }
  }
  return all;
}

std::vector<model::HeadGradient*> LossGradients::tables() {
  std::vector<model::HeadGradient*> all = {&head_gradient_};
  if (embedding_gradient_) all.push_back(&*embedding_gradient_);
  return all;
}

void LossGradients::clear() {
  for (model::Parameter& parameter : parameters_) parameter.tensor.mutable_grad().reset();
  for (at::Tensor& sum : sums_)
    if (sum.defined()) sum.zero_();
  head_gradient_.clear();
  if (embedding_gradient_) embedding_gradient_->clear();
}

}  // namespace routeopd::train
