// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/route_rollout.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "routeopd/model/heads/dense_head.h"
#include "routeopd/routing/controls.h"
#include "routeopd/routing/reference.h"
#include "routeopd/routing/route_states.h"
#include "routeopd/types/state_batch.h"

namespace routeopd::train {
namespace {

// With a support over the whole vocabulary, the top-k serves the metrics alone.
constexpr std::int32_t kTopOfFullSupport = 64;

template <class T>
void append(std::vector<T>& all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

void append(Routes& all, const Routes& more) {
  all.states += more.states;
  all.pairs = more.pairs;
  append(all.source_NM, more.source_NM);
  append(all.destination_NM, more.destination_NM);
  append(all.target_NM, more.target_NM);
  append(all.old_NM, more.old_NM);
  append(all.weight_N, more.weight_N);
  append(all.validity_N, more.validity_N);
  append(all.routed_N, more.routed_N);
  append(all.mass_N, more.mass_N);
  append(all.concentration_N, more.concentration_N);
  append(all.budget_N, more.budget_N);
  append(all.coverage_N, more.coverage_N);
  append(all.saturated_N, more.saturated_N);
  append(all.student_mass_N, more.student_mass_N);
  append(all.teacher_mass_N, more.teacher_mass_N);
  append(all.n_deficit_N, more.n_deficit_N);
  Support& support = all.support;
  const std::int64_t base = support.offsets_N1.back();
  for (std::size_t i = 1; i < more.support.offsets_N1.size(); ++i)
    support.offsets_N1.push_back(base + more.support.offsets_N1[i]);
  append(support.ids_L, more.support.ids_L);
  append(support.old_logits_L, more.support.old_logits_L);
  append(support.log_p_teacher_L, more.support.log_p_teacher_L);
  append(support.p_student_L, more.support.p_student_L);
  append(support.p_teacher_L, more.support.p_teacher_L);
  append(support.potential_L, more.support.potential_L);
  append(support.bounded_L, more.support.bounded_L);
}

Routes route_full_support(const Rollout& rollout, const Scores& scores,
                          const routing::ObjectiveOptions& options, std::uint64_t seed, const Heads& heads) {
  const c10::NoGradGuard no_grad;
  const auto rows = [](const std::vector<float>& hidden, std::int64_t width, std::int64_t first,
                       std::int64_t end) {
    return at::from_blob(const_cast<float*>(hidden.data()) + first * width, {end - first, width}, at::kFloat);
  };
  Routes all;
  at::Tensor student_CR, teacher_CR;
  for (std::int64_t first = 0; first < rollout.states(); first += model::kDenseChunk) {
    const std::int64_t end = std::min(first + model::kDenseChunk, rollout.states());
    student_CR = at::empty({end - first, heads.real_ids}, at::kFloat);
    teacher_CR = at::empty_like(student_CR);
    model::dense_logits(rows(rollout.hidden_NH, rollout.hidden_size, first, end), heads.student_VH.detach(),
                        heads.real_ids, student_CR);
    model::dense_logits(rows(scores.hidden_NX, scores.hidden_size, first, end), heads.teacher_UX,
                        heads.real_ids, teacher_CR);
    StateBatch batch;
    batch.states = end - first;
    batch.real_ids = heads.real_ids;
    batch.student_columns = batch.teacher_columns = heads.real_ids;
    batch.student_logits_NK = student_CR.const_data_ptr<float>();
    batch.teacher_logits_NJ = teacher_CR.const_data_ptr<float>();
    batch.student_lse_N = rollout.logsumexp_N.data() + first;
    batch.teacher_lse_N = scores.teacher_logsumexp_N.data() + first;
    batch.address_N = rollout.address_N.data() + first;
    batch.validity_N = scores.validity_N.data() + first;
    append(all, routing::route_states(batch, options, seed, at::get_num_threads()));
  }
  return all;
}

bool walks_vocabulary(const routing::ObjectiveOptions& options) {
  return options.loss == routing::Loss::kFullRkl || options.loss == routing::Loss::kFullFkl;
}

}  // namespace

engine::Capture capture_options(const routing::ObjectiveOptions& options) {
  return {.k = options.k == routing::kFullSupport ? kTopOfFullSupport : options.k, .hidden = true};
}

bool needs_teacher_hidden(const routing::ObjectiveOptions& options) {
  return options.k == routing::kFullSupport || walks_vocabulary(options);
}

engine::ScoreOptions taken_score_options(const routing::ObjectiveOptions& options, bool rescore) {
  engine::ScoreOptions scoring;
  scoring.k = 0;
  scoring.rescore = rescore;
  scoring.teacher_hidden = walks_vocabulary(options);
  return scoring;
}

Routes unrouted(const Scores& scores) {
  Routes routes;
  routes.states = std::ssize(scores.validity_N);
  routes.validity_N = scores.validity_N;
  return routes;
}

engine::ScoreOptions score_options(const routing::ObjectiveOptions& options, const Rollout& rollout,
                                   bool rescore, std::uint64_t seed, std::int32_t real_ids) {
  engine::ScoreOptions scoring;
  scoring.k = capture_options(options).k;
  scoring.rescore = rescore;
  scoring.teacher_hidden = needs_teacher_hidden(options);
  if (!options.needs_pool() || options.k == routing::kFullSupport)
    return scoring;  // a full support leaves no background

  scoring.pool_columns = routing::kPoolDraws;
  scoring.pool_ids_NP = routing::background_pools_NP(rollout, real_ids, seed);
  return scoring;
}

Routes route_rollout(const Rollout& rollout, const Scores& scores, const routing::ObjectiveOptions& options,
                     std::uint64_t seed, const Heads& heads) {
  if (options.k == routing::kFullSupport) return route_full_support(rollout, scores, options, seed, heads);
  const StateBatch batch = state_batch_of(rollout, scores, heads.real_ids);
  return routing::route_states(batch, options, seed, at::get_num_threads());
}

}  // namespace routeopd::train
