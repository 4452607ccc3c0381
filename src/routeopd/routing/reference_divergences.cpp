// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/reference_divergences.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace routeopd::routing::reference {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

}  // namespace

LossAndGradient sampled_rkl(std::span<const double> old_logits, std::span<const double> teacher_logits,
                            std::span<const double> current_logits, std::int32_t action,
                            const ObjectiveOptions& options) {
  const auto a = static_cast<std::size_t>(action);
  const double log_old = old_logits[a] - log_sum_exp(old_logits);
  const double log_current = current_logits[a] - log_sum_exp(current_logits);
  double log_teacher = teacher_logits[a] - log_sum_exp(teacher_logits);
  if (log_teacher == -kInf) log_teacher = std::log(options.delta_p);
  const double advantage = log_teacher - log_old;
  const double ratio = std::exp(log_current - log_old);

  LossAndGradient result;
  result.gradient.assign(current_logits.size(), 0.0);
  result.loss = -ratio * advantage;
  if (options.ratio_clip > 0) {
    const double clipped = std::clamp(ratio, 1 - options.ratio_clip, 1 + options.ratio_clip);
    if (clipped * advantage < ratio * advantage) {  // the clipped branch is a constant
      result.loss = -clipped * advantage;
      return result;
    }
  }
  const Values current = softmax(current_logits);
  for (std::size_t v = 0; v < current.size(); ++v) result.gradient[v] = ratio * advantage * current[v];
  result.gradient[a] -= ratio * advantage;
  return result;
}

LossAndGradient reverse_kl(std::span<const double> teacher_logits, std::span<const double> current_logits,
                           const ObjectiveOptions& options) {
  const Values current = softmax(current_logits);
  const double current_lse = log_sum_exp(current_logits);
  const double teacher_lse = log_sum_exp(teacher_logits);
  LossAndGradient result;
  Values log_ratio(current.size(), 0.0);
  for (std::size_t v = 0; v < current.size(); ++v) {
    if (current_logits[v] == -kInf) continue;
    const double log_teacher =
        teacher_logits[v] == -kInf ? std::log(options.delta_p) : teacher_logits[v] - teacher_lse;
    log_ratio[v] = (current_logits[v] - current_lse) - log_teacher;
    result.loss += current[v] * log_ratio[v];
  }
  for (std::size_t v = 0; v < current.size(); ++v) {
    result.gradient.push_back(current[v] * (log_ratio[v] - result.loss));
  }
  return result;
}

LossAndGradient forward_kl(std::span<const double> teacher_logits, std::span<const double> current_logits) {
  const Values current = softmax(current_logits);
  const Values teacher = softmax(teacher_logits);
  const double current_lse = log_sum_exp(current_logits);
  const double teacher_lse = log_sum_exp(teacher_logits);
  LossAndGradient result;
  double teacher_mass = 0;  // on the ids that take part
  for (std::size_t v = 0; v < current.size(); ++v) {
    if (current_logits[v] == -kInf || teacher[v] == 0) continue;
    teacher_mass += teacher[v];
    result.loss += teacher[v] * ((teacher_logits[v] - teacher_lse) - (current_logits[v] - current_lse));
  }
  for (std::size_t v = 0; v < current.size(); ++v) {
    const bool takes_part = current_logits[v] != -kInf;
    result.gradient.push_back(takes_part ? teacher_mass * current[v] - teacher[v] : 0.0);
  }
  return result;
}

std::optional<double> fidelity(const Transport& state, std::span<const double> before_logits,
                               std::span<const double> after_logits) {
  const Values before = softmax(before_logits);
  const Values after = softmax(after_logits);
  double removed = 0;  // eq. app-source-destination-gain
  double gained = 0;
  for (std::size_t i = 0; i < state.ids.size(); ++i) {
    const auto id = static_cast<std::size_t>(state.ids[i]);
    const double change = after[id] - before[id];
    if (state.excess[i] > 0) removed += std::max(-change, 0.0);
    if (state.deficit[i] > 0) gained += std::max(change, 0.0);
  }
  if (removed <= 0) return std::nullopt;
  return std::min(removed, gained) / removed;
}

double leakage(std::span<const double> teacher_logits, std::span<const double> before_logits,
               std::span<const double> after_logits, double delta_diag) {
  const Values teacher = softmax(teacher_logits);
  const Values before = softmax(before_logits);
  const Values after = softmax(after_logits);
  double outside = 0;
  double all = 0;
  for (std::size_t v = 0; v < before.size(); ++v) {
    const double gain = std::max(after[v] - before[v], 0.0);
    all += gain;
    if (teacher[v] <= before[v]) outside += gain;
  }
  return outside / (all + delta_diag);
}

Values potential_wide_step(const Transport& state) {
  Values logits = state.student_logits;
  for (std::size_t i = 0; i < state.bounded.size(); ++i) logits[i] += state.bounded[i];
  return softmax(logits);
}

Values pair_isolated_step(const Transport& state, const Pair& pair) {
  Values logits = state.student_logits;
  logits[position_in(state.ids, pair.destination)] += pair.target / 2;
  logits[position_in(state.ids, pair.source)] -= pair.target / 2;
  return softmax(logits);
}

double mass_after(const Transport& state, std::span<const double> p_after) {
  double distance = 0;
  for (std::size_t i = 0; i < p_after.size(); ++i) distance += std::abs(p_after[i] - state.p_teacher[i]);
  return distance / 2;
}

double retained_after(const Transport& state, double student_mass) {
  double growth = 1;
  for (std::size_t i = 0; i < state.bounded.size(); ++i)
    growth += state.p_student[i] * std::expm1(state.bounded[i]);
  return student_mass * growth / (1 - student_mass + student_mass * growth);
}

}  // namespace routeopd::routing::reference
