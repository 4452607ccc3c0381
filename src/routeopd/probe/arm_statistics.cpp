// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/arm_statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "routeopd/routing/reference_sampling.h"
#include "routeopd/routing/token_losses.h"

namespace routeopd::probe {
namespace {

namespace reference = routing::reference;
using reference::Transport;

// What the pair at positions a, b of U is asked to move: minus the residual of its loss at Delta = 0.
double wanted(const Transport& state, std::size_t a, std::size_t b,
              const routing::ObjectiveOptions& options) {
  if (options.target == routing::Target::kShared) return state.bounded[b] - state.bounded[a];
  return std::clamp(state.potential[b] - state.potential[a], 0.0, state.budget);
}

std::vector<std::size_t> places(const reference::Values& shares) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < shares.size(); ++i)
    if (shares[i] > 0) found.push_back(i);
  return found;
}

// Mean and second moment of h(wanted) for one pair of the product coupling.
struct Moments {
  double first = 0, second = 0;
};

constexpr std::size_t kMostSummedPairs = std::size_t{1} << 22;  // summed one by one at a state; 10 ms

// NaN where there are more than kMostSummedPairs.
Moments moments_by_pairs(const Transport& state, const routing::ObjectiveOptions& options) {
  Moments sum;
  const std::vector<std::size_t> sources = places(state.q_minus), destinations = places(state.q_plus);
  if (sources.size() * destinations.size() > kMostSummedPairs) return {std::nan(""), std::nan("")};
  for (const std::size_t a : sources) {
    for (const std::size_t b : destinations) {
      const double share = state.q_minus[a] * state.q_plus[b];
      const double h = routing::huber(wanted(state, a, b, options), options.kappa);
      sum.first += share * h;
      sum.second += share * h * h;
    }
  }
  return sum;
}

// A shared target phi(b) - phi(a) that stays within kappa: h = (phi(b) - phi(a))^2 / 2, so that both moments
// follow from the potentials' own, and a support of k ids costs k in place of k^2. With X_i = E-[phi^i] and
// Y_i = E+[phi^i]:
//   E[(y - x)^n] = sum_i C(n, i) (-1)^i X_i Y_{n-i}
Moments moments_by_powers(const Transport& state) {
  std::array<double, 5> x{}, y{};
  for (std::size_t i = 0; i < state.ids.size(); ++i) {
    double power = 1;
    for (std::size_t n = 0; n < x.size(); ++n, power *= state.bounded[i]) {
      x[n] += state.q_minus[i] * power;
      y[n] += state.q_plus[i] * power;
    }
  }
  const double square = y[2] - 2 * x[1] * y[1] + x[2];
  const double fourth = y[4] - 4 * x[1] * y[3] + 6 * x[2] * y[2] - 4 * x[3] * y[1] + x[4];
  return {.first = square / 2, .second = fourth / 4};
}

// One-sided arms ask for phi at one end alone.
Moments moments_of_side(const Transport& state, const routing::ObjectiveOptions& options) {
  Moments sum;
  const reference::Values& shares = options.side == routing::Side::kSource ? state.q_minus : state.q_plus;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double h = routing::huber(state.bounded[i], options.kappa);
    sum.first += shares[i] * h;
    sum.second += shares[i] * h * h;
  }
  return sum;
}

Moments moments_of(const Transport& state, const routing::ObjectiveOptions& options) {
  if (options.side != routing::Side::kPair) return moments_of_side(state, options);
  const bool quadratic = options.target == routing::Target::kShared && state.budget <= options.kappa;
  return quadratic ? moments_by_powers(state) : moments_by_pairs(state, options);
}

// A position drawn by `shares`, `without` one of them (SIZE_MAX: with all).
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

void count_cycles(const Transport& state, const routing::ObjectiveOptions& options, std::uint64_t seed,
                  const StateAddress& address, StateDemand& demand) {
  if (places(state.q_minus).size() < 2 || places(state.q_plus).size() < 2) return;
  for (std::uint32_t i = 0; i < kCycleDraws; ++i) {
    const PhiloxBlock words = addressed_words(seed, Purpose::kProbe, address, i + 1);
    const std::size_t a1 = draw(state.q_minus, unit_uniform(words[0])),
                      a2 = draw(state.q_minus, unit_uniform(words[1]), a1),
                      b1 = draw(state.q_plus, unit_uniform(words[2])),
                      b2 = draw(state.q_plus, unit_uniform(words[3]), b1);
    const auto target = [&](std::size_t a, std::size_t b) { return wanted(state, a, b, options); };
    const double open = target(a1, b1) + target(a2, b2) - target(a1, b2) - target(a2, b1);
    ++demand.cycles;
    demand.violated += std::abs(open) > options.delta_target ? 1 : 0;
  }
}

}  // namespace

StateDemand demand_of(const Transport& state, const routing::ObjectiveOptions& options, std::uint64_t seed,
                      const StateAddress& address) {
  StateDemand demand;
  if (!state.routed) return demand;
  demand.routed = true;
  demand.budget = state.budget;
  if (options.side == routing::Side::kPair) count_cycles(state, options, seed, address, demand);
  if (options.pairs != routing::Pairs::kSample) return demand;
  // The pairs are independent: the variance of their mean is that of one over m.
  const Moments one = moments_of(state, options);
  const double weight = options.weight == routing::Weight::kMass ? state.mass : 1;
  demand.loss_mean = weight * one.first;
  const double variance = one.second - one.first * one.first;
  demand.loss_variance = weight * weight * (variance < 0 ? 0 : variance) / options.m;  // NaN stays
  return demand;
}

ArmStatistics arm_statistics(std::span<const StateDemand> demand_S,
                             const routing::ObjectiveOptions& options) {
  ArmStatistics statistics;
  double routed = 0, cycles = 0, violated = 0;
  StateDemand sum;
  for (const StateDemand& demand : demand_S) {
    routed += demand.routed ? 1 : 0;
    cycles += static_cast<double>(demand.cycles);
    violated += static_cast<double>(demand.violated);
    sum.budget += demand.budget;
    sum.loss_mean += demand.loss_mean;
    sum.loss_variance += demand.loss_variance;
  }
  if (routed == 0) return statistics;
  statistics.budget = sum.budget / routed;
  if (cycles > 0) statistics.cycle_violations = violated / cycles;
  if (options.pairs != routing::Pairs::kSample) return statistics;
  if (std::isnan(sum.loss_variance)) return statistics;
  // States that are not routed count with a loss of 0.
  const auto states = static_cast<double>(demand_S.size());
  statistics.loss_variance = sum.loss_variance / states;
  const double mean = sum.loss_mean / states;
  if (mean > 0) statistics.relative_loss_variance = *statistics.loss_variance / (mean * mean);
  return statistics;
}

}  // namespace routeopd::probe
