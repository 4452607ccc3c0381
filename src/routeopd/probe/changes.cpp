// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/changes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace routeopd::probe {
namespace {

void softmax_into(std::span<const float> logits, std::vector<double>& probabilities) {
  const auto top = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  probabilities.resize(logits.size());
  double sum = 0;
  for (std::size_t v = 0; v < logits.size(); ++v)
    sum += probabilities[v] = std::exp(static_cast<double>(logits[v]) - top);
  for (double& p : probabilities) p /= sum;
}

}  // namespace

void StateRows::set_before(std::span<const float> teacher_logits_R, std::span<const float> before_logits_R) {
  softmax_into(teacher_logits_R, teacher_R);
  softmax_into(before_logits_R, before_R);
}

void StateRows::set_after(std::span<const float> before_logits_R, std::span<const double> after_logits_R) {
  change_R.resize(before_R.size());
  double growth = 0;
  for (std::size_t v = 0; v < before_R.size(); ++v) {
    const double moved = after_logits_R[v] - static_cast<double>(before_logits_R[v]);
    change_R[v] = before_R[v] > 0 ? moved : 0;  // -inf stays: no finite step moves it
    growth += before_R[v] * std::expm1(change_R[v]);
  }
  const double shift = std::log1p(growth);
  for (std::size_t v = 0; v < before_R.size(); ++v)
    change_R[v] = before_R[v] * std::expm1(change_R[v] - shift);
}

StateChange change_of(const routing::reference::Transport& state, const StateRows& rows, double delta_diag) {
  StateChange change;
  double removed = 0, gained = 0, after_on_u = 0;
  for (std::size_t i = 0; i < state.ids.size(); ++i) {
    const auto id = static_cast<std::size_t>(state.ids[i]);
    const double moved = rows.change_R[id];
    if (state.excess[i] > 0) removed += std::max(-moved, 0.0);
    if (state.deficit[i] > 0) gained += std::max(moved, 0.0);
    after_on_u += rows.before_R[id] + rows.change_R[id];
  }
  if (removed > 0) change.fidelity = std::min(removed, gained) / removed;
  for (std::size_t i = 0; i < state.ids.size(); ++i) {
    const auto id = static_cast<std::size_t>(state.ids[i]);
    const double after = (rows.before_R[id] + rows.change_R[id]) / after_on_u;
    change.mass_after += std::abs(after - state.p_teacher[i]) / 2;
  }
  double outside = 0, all = 0;
  for (std::size_t v = 0; v < rows.before_R.size(); ++v) {
    const double gain = std::max(rows.change_R[v], 0.0);
    all += gain;
    if (rows.teacher_R[v] <= rows.before_R[v]) outside += gain;
  }
  change.leakage = outside / (all + delta_diag);
  return change;
}

Realization realization(const Changes& changes, double delta_target) {
  std::vector<std::size_t> all(changes.fidelity_S.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return realization(changes, delta_target, all);
}

Realization realization(const Changes& changes, double delta_target, std::span<const std::size_t> states) {
  Realization result;
  const auto width = static_cast<std::size_t>(changes.pairs);
  for (const std::size_t s : states) {
    for (std::size_t i = s * width; i < (s + 1) * width; ++i) {
      const double target = changes.target_SM[i], achieved = changes.achieved_SM[i];
      if (changes.source_SM[i] < 0 || target < delta_target) continue;
      ++result.pairs;
      result.mae += std::abs(achieved - target);
      result.completion += std::clamp(achieved / target, 0.0, 1.0);
      result.overshoot += achieved > target + delta_target ? 1 : 0;
    }
  }
  if (result.pairs == 0) return result;
  for (double* sum : {&result.mae, &result.completion, &result.overshoot})
    *sum /= static_cast<double>(result.pairs);
  return result;
}

double rms_achieved(const Changes& changes) {
  double squares = 0, count = 0;
  for (std::size_t i = 0; i < changes.achieved_SM.size(); ++i) {
    if (changes.source_SM[i] < 0) continue;
    squares += changes.achieved_SM[i] * changes.achieved_SM[i];
    ++count;
  }
  return count == 0 ? 0 : std::sqrt(squares / count);
}

}  // namespace routeopd::probe
