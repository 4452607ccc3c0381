//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/arm_statistics.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "routeopd/routing/huber.h"

namespace routeopd::probe {
namespace {

namespace reference = routing::reference;
using reference::Transport;

// The pair loss's residual at Delta = 0 with the sign turned: what the pair (positions a, b of U) is asked to move.
double wanted(const Transport& state, std::size_t a, std::size_t b,
              const routing::ObjectiveOptions& options) {
  if (options.side == routing::Side::kSource) return state.bounded[a];
  if (options.side == routing::Side::kDestination) return state.bounded[b];
  if (options.target == routing::Target::kShared) return state.bounded[b] - state.bounded[a];
  return std::clamp(state.potential[b] - state.potential[a], 0.0, state.budget);
}

std::vector<std::size_t> places(const reference::Values& shares) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < shares.size(); ++i)
    if (shares[i] > 0) found.push_back(i);
  return found;
}

// Mean and variance of the token loss weight / m sum h(D) over redraws of m independent pairs, exactly: the pairs are
// independent, so the variance of their mean is that of one over m.
struct Moments {
  double mean = 0, variance = 0;
};
Moments loss_moments(const Transport& state, const routing::ObjectiveOptions& options) {
  double first = 0, second = 0;
  const std::vector<std::size_t> sources = places(state.q_minus), destinations = places(state.q_plus);
  for (const std::size_t a : sources) {
    for (const std::size_t b : destinations) {
      const double share = state.q_minus[a] * state.q_plus[b];
      const double h = routing::huber(wanted(state, a, b, options), options.kappa);
      first += share * h;
      second += share * h * h;
    }
  }
  const double weight = options.weight == routing::Weight::kMass ? state.mass : 1;
  return {
      .mean = weight * first,
      .variance = weight * weight * std::max(second - first * first, 0.0) / static_cast<double>(options.m)};
}

// A place drawn by `shares`, `without` one of them (or none: SIZE_MAX).
std::size_t draw(const reference::Values& shares, float u, std::size_t without = SIZE_MAX) {
  const double total = without == SIZE_MAX ? 1.0 : 1.0 - shares[without];
  double left = static_cast<double>(u) * total;
  std::size_t last = SIZE_MAX;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (i == without || shares[i] <= 0) continue;
    last = i;
    left -= shares[i];
    if (left < 0) return i;
  }
  return last;
}

struct Cycles {
  std::int64_t drawn = 0, violated = 0;
};
void count_cycles(const Transport& state, const routing::ObjectiveOptions& options, std::uint64_t seed,
                  const StateAddress& address, Cycles& cycles) {
  if (places(state.q_minus).size() < 2 || places(state.q_plus).size() < 2) return;
  for (std::uint32_t i = 0; i < kCycleDraws; ++i) {
    const PhiloxBlock words = addressed_words(seed, Purpose::kProbe, address, i + 1);
    const std::size_t a1 = draw(state.q_minus, unit_uniform(words[0])),
                      a2 = draw(state.q_minus, unit_uniform(words[1]), a1),
                      b1 = draw(state.q_plus, unit_uniform(words[2])),
                      b2 = draw(state.q_plus, unit_uniform(words[3]), b1);
    const auto target = [&](std::size_t a, std::size_t b) { return wanted(state, a, b, options); };
    const double open = target(a1, b1) + target(a2, b2) - target(a1, b2) - target(a2, b1);
    ++cycles.drawn;
    cycles.violated += std::abs(open) > options.delta_target ? 1 : 0;
  }
}

double covered(const Transport& state, const std::vector<reference::Pair>& pairs) {
  std::set<std::int32_t> seen;
  double share = 0;
  for (const reference::Pair& pair : pairs) {
    const auto at = std::lower_bound(state.ids.begin(), state.ids.end(), pair.destination);
    if (at != state.ids.end() && *at == pair.destination && seen.insert(pair.destination).second)
      share += state.q_plus[static_cast<std::size_t>(at - state.ids.begin())];
  }
  return share;
}

}  // namespace

ArmStatistics arm_statistics(const Bank& bank, const Frozen& frozen,
                             const routing::ObjectiveOptions& options) {
  ArmStatistics statistics;
  if (options.loss != routing::Loss::kRouted) return statistics;
  const bool sampled = options.pairs == routing::Pairs::kSample;
  double routed = 0, budget = 0, coverage = 0, variance = 0, mean = 0;
  Cycles cycles;
  std::size_t at = 0;  // in teacher_logits_L
  for (std::size_t s = 0; s < bank.states(); ++s) {
    const Transport& base = frozen.transport_S[s];
    reference::Values teacher;
    for (std::size_t i = 0; i < base.ids.size(); ++i)
      teacher.push_back(static_cast<double>(frozen.teacher_logits_L[at++]));
    const Transport state = reference::transport(base.ids, base.student_logits, teacher, options);
    if (!state.routed) continue;
    ++routed;
    budget += state.budget;
    const StateAddress& address = bank.rollout.address_N[bank.states_S[s]];
    if (options.side == routing::Side::kPair) count_cycles(state, options, bank.seed, address, cycles);
    if (!sampled) continue;
    const Moments moments = loss_moments(state, options);
    mean += moments.mean;
    variance += moments.variance;
    // Coverage speaks of the drawn destinations b; a control's b' replaces them afterwards.
    routing::ObjectiveOptions drawn = options;
    drawn.destination = routing::Destination::kTeacherDeficit;
    coverage += covered(state, reference::sample_pairs(state, {}, drawn, bank.seed, address));
  }
  if (routed == 0) return statistics;
  statistics.budget = budget / routed;
  if (cycles.drawn > 0)
    statistics.cycle_violations = static_cast<double>(cycles.violated) / static_cast<double>(cycles.drawn);
  if (!sampled) return statistics;
  statistics.coverage = coverage / routed;
  statistics.loss_variance = variance / routed;
  mean /= routed;
  if (mean > 0) statistics.relative_loss_variance = *statistics.loss_variance / (mean * mean);
  return statistics;
}

}  // namespace routeopd::probe
