// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "routeopd/routing/token_losses.h"

namespace routeopd::routing::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// l_delta(x) = log(max(x, delta_p)).
double floored_log(double x, double delta_p) {
  return std::log(std::max(x, delta_p));
}

double sum(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

std::size_t position_in(const Ids& ids, std::int32_t id) {
  const auto at = std::lower_bound(ids.begin(), ids.end(), id);
  if (at == ids.end() || *at != id) throw UserError("pairs: id {} is not in the support of this state", id);
  return static_cast<std::size_t>(at - ids.begin());
}

Ids top_k(std::span<const double> logits, std::int32_t k) {
  Ids order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t left, std::int32_t right) {
    return logits[static_cast<std::size_t>(left)] > logits[static_cast<std::size_t>(right)];
  });
  order.resize(std::min(order.size(), static_cast<std::size_t>(k)));
  return order;
}

Ids support(std::span<const double> student_logits, std::span<const double> teacher_logits, std::int32_t k) {
  Ids ids = top_k(student_logits, k);
  const Ids of_teacher = top_k(teacher_logits, k);
  ids.insert(ids.end(), of_teacher.begin(), of_teacher.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::erase_if(ids,
                [&](std::int32_t id) { return student_logits[static_cast<std::size_t>(id)] == -kInfinity; });
  return ids;
}

double log_sum_exp(std::span<const double> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  if (largest == -kInfinity) return -kInfinity;
  double total = 0;
  for (const double logit : logits) total += std::exp(logit - largest);
  return largest + std::log(total);
}

Values softmax(std::span<const double> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  Values p;
  for (const double logit : logits) p.push_back(std::exp(logit - largest));
  const double total = sum(p);
  for (double& value : p) value /= total;
  return p;
}

double concentration(std::span<const double> q_plus, int n_deficit) {
  if (n_deficit == 1) return 1;
  double squares = 0;
  for (const double q : q_plus) squares += q * q;
  return std::clamp((n_deficit * squares - 1) / (n_deficit - 1), 0.0, 1.0);
}

double transport_budget(double c, const ObjectiveOptions& options) {
  switch (options.budget.rule) {
    case BudgetRule::kAdaptive:
      return options.b_min + (options.b_max - options.b_min) * c;
    case BudgetRule::kReversed:
      return options.b_max - (options.b_max - options.b_min) * c;
    case BudgetRule::kFixed:
      break;
  }
  return options.budget.fixed;
}

double bounded_potential(double potential, double budget) {
  return budget / 2 * std::tanh(2 * potential / budget);
}

Transport transport(const Ids& ids, std::span<const double> student_logits_on_u,
                    std::span<const double> teacher_logits_on_u, const ObjectiveOptions& options) {
  Transport state;
  state.ids = ids;
  state.student_logits.assign(student_logits_on_u.begin(), student_logits_on_u.end());
  state.p_student = softmax(student_logits_on_u);
  state.p_teacher = softmax(teacher_logits_on_u);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    state.excess.push_back(std::max(state.p_student[i] - state.p_teacher[i], 0.0));
    state.deficit.push_back(std::max(state.p_teacher[i] - state.p_student[i], 0.0));
    state.potential.push_back(floored_log(state.p_teacher[i], options.delta_p) -
                              floored_log(state.p_student[i], options.delta_p));
    state.n_deficit += state.deficit.back() > 0 ? 1 : 0;
  }
  const double total_excess = sum(state.excess);
  const double total_deficit = sum(state.deficit);
  state.mass = (total_excess + total_deficit) / 2;
  if (total_excess <= 0 || total_deficit <= 0) return state;  // the models agree on U
  state.routed = state.mass > options.delta_m;

  for (const double e : state.excess) state.q_minus.push_back(e / total_excess);
  for (const double d : state.deficit) state.q_plus.push_back(d / total_deficit);
  state.concentration = concentration(state.q_plus, state.n_deficit);
  state.budget = transport_budget(state.concentration, options);
  for (const double g : state.potential) state.bounded.push_back(bounded_potential(g, state.budget));
  return state;
}

double pair_target(const Transport& state, std::int32_t source, std::int32_t destination,
                   const ObjectiveOptions& options) {
  const std::size_t a = position_in(state.ids, source);
  const std::size_t b = position_in(state.ids, destination);
  if (options.target == Target::kIndependent) {
    return std::clamp(state.potential[b] - state.potential[a], 0.0, state.budget);
  }
  switch (options.side) {
    case Side::kSource:
      return state.bounded[a];
    case Side::kDestination:
      return state.bounded[b];
    case Side::kPair:
      break;
  }
  return state.bounded[b] - state.bounded[a];
}

LossAndGradient pair_loss(const Transport& state, std::span<const Pair> pairs,
                          std::span<const double> old_logits, std::span<const double> current_logits,
                          const ObjectiveOptions& options, Values* deltas) {
  LossAndGradient result;
  result.gradient.assign(current_logits.size(), 0.0);
  if (!state.routed || pairs.empty()) return result;
  const double weight =
      (options.weight == Weight::kMass ? state.mass : 1.0) / static_cast<double>(pairs.size());

  const auto change = [&](std::int32_t id) {
    return current_logits[static_cast<std::size_t>(id)] - old_logits[static_cast<std::size_t>(id)];
  };
  for (const Pair& pair : pairs) {
    if (options.side == Side::kPair) {  // the log-partitions cancel
      const double delta = change(pair.destination) - change(pair.source);
      const double slope = weight * huber_slope(delta - pair.target, options.kappa);
      result.loss += weight * huber(delta - pair.target, options.kappa);
      result.gradient[static_cast<std::size_t>(pair.destination)] += slope;
      result.gradient[static_cast<std::size_t>(pair.source)] -= slope;
      if (deltas) deltas->push_back(delta);
    } else {
      const std::int32_t id = options.side == Side::kSource ? pair.source : pair.destination;
      const double delta = change(id) - log_sum_exp(current_logits) + log_sum_exp(old_logits);
      const double slope = weight * huber_slope(delta - pair.target, options.kappa);
      result.loss += weight * huber(delta - pair.target, options.kappa);
      const Values current = softmax(current_logits);
      for (std::size_t v = 0; v < current.size(); ++v) result.gradient[v] -= slope * current[v];
      result.gradient[static_cast<std::size_t>(id)] += slope;
      if (deltas) deltas->push_back(delta);
    }
  }
  return result;
}

LossAndGradient exact_loss(const Transport& state, std::span<const double> old_logits,
                           std::span<const double> current_logits, const ObjectiveOptions& options) {
  LossAndGradient result;
  result.gradient.assign(current_logits.size(), 0.0);
  if (!state.routed) return result;
  const double weight = options.weight == Weight::kMass ? state.mass : 1.0;

  for (std::size_t a = 0; a < state.ids.size(); ++a) {
    for (std::size_t b = 0; b < state.ids.size(); ++b) {
      const double coupling = weight * state.q_minus[a] * state.q_plus[b];
      if (coupling == 0) continue;
      const auto source = static_cast<std::size_t>(state.ids[a]);
      const auto destination = static_cast<std::size_t>(state.ids[b]);
      const double delta = (current_logits[destination] - current_logits[source]) -
                           (old_logits[destination] - old_logits[source]);
      const double residual = delta - (state.bounded[b] - state.bounded[a]);
      result.loss += coupling * huber(residual, options.kappa);
      result.gradient[destination] += coupling * huber_slope(residual, options.kappa);
      result.gradient[source] -= coupling * huber_slope(residual, options.kappa);
    }
  }
  return result;
}

}  // namespace routeopd::routing::reference
