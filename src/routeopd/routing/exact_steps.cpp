//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/exact_steps.h"

#include <algorithm>
#include <cmath>

namespace routeopd::routing::reference {
namespace {

std::size_t place_of(const Transport& state, std::int32_t id) {
  const auto at = std::lower_bound(state.ids.begin(), state.ids.end(), id);
  if (at == state.ids.end() || *at != id)
    throw UserError("pairs: id {} is not in the support of this state", id);
  return static_cast<std::size_t>(at - state.ids.begin());
}

}  // namespace

Values potential_wide_step(const Transport& state) {
  Values logits = state.student_logits;
  for (std::size_t i = 0; i < state.bounded.size(); ++i) logits[i] += state.bounded[i];
  return softmax(logits);
}

Values pair_isolated_step(const Transport& state, const Pair& pair) {
  Values logits = state.student_logits;
  logits[place_of(state, pair.destination)] += pair.target / 2;
  logits[place_of(state, pair.source)] -= pair.target / 2;
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
