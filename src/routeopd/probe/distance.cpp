// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/distance.h"

#include <c10/core/GradMode.h>

#include <cmath>
#include <span>

#include "routeopd/probe/state_scores.h"
#include "routeopd/probe/vocabulary_rows.h"

namespace routeopd::probe {
namespace {

double mass_on(const routing::reference::Transport& state, std::span<const float> student_R,
               double logsumexp) {
  double on_u = 0;
  for (const std::int32_t id : state.ids)
    on_u += std::exp(static_cast<double>(student_R[static_cast<std::size_t>(id)]) - logsumexp);
  double mass = 0;
  for (std::size_t i = 0; i < state.ids.size(); ++i) {
    const double logit = static_cast<double>(student_R[static_cast<std::size_t>(state.ids[i])]);
    mass += std::abs(std::exp(logit - logsumexp) / on_u - state.p_teacher[i]) / 2;
  }
  return mass;
}

}  // namespace

Distances distances_at(const Bank& bank, const model::Model& student, const at::Tensor& teacher_head_UX) {
  const c10::NoGradGuard no_grad;
  Distances distances;
  for (auto* const values : {&distances.mass_S, &distances.forward_kl_S, &distances.reverse_kl_S})
    values->assign(bank.states(), 0.0);
  const at::Tensor hidden_SH = hidden_at(student, bank.rollout, bank.states_S);
  walk_rows(hidden_SH, student.head_VH, bank.teacher_hidden_SX, teacher_head_UX, bank.real_ids,
            [&](std::size_t s, std::span<const float> student_R, std::span<const float> teacher_R) {
              const double z_student = row_sums(student_R).logsumexp,
                           z_teacher = row_sums(teacher_R).logsumexp;
              for (std::size_t v = 0; v < student_R.size(); ++v) {
                const double log_s = static_cast<double>(student_R[v]) - z_student,
                             log_t = static_cast<double>(teacher_R[v]) - z_teacher;
                distances.forward_kl_S[s] += std::exp(log_t) * (log_t - log_s);
                distances.reverse_kl_S[s] += std::exp(log_s) * (log_s - log_t);
              }
              distances.mass_S[s] = mass_on(bank.frozen.transport_S[s], student_R, z_student);
            });
  return distances;
}

}  // namespace routeopd::probe
