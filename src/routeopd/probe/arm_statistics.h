// What an arm asks for at the states of a bank, before any step: how much of the demand its pairs cover, how
// much its loss varies over redraws of them, and whether its targets can all hold at once. In double
// precision, on the arm's own support.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "routeopd/base/philox.h"
#include "routeopd/routing/options.h"
#include "routeopd/routing/reference.h"

namespace routeopd::probe {

// Quadruples drawn per state to look for cycle violations.
inline constexpr std::uint32_t kCycleDraws = 64;

// One state; zeros where it is not routed.
struct StateDemand {
  bool routed = false;
  double budget = 0;                        // B
  double loss_mean = 0, loss_variance = 0;  // of the token loss at Delta = 0, over redraws of the m pairs
  std::int64_t cycles = 0, violated = 0;    // quadruples drawn, and those whose targets do not close
};
StateDemand demand_of(const routing::reference::Transport& state, const routing::ObjectiveOptions& options,
                      std::uint64_t seed, const StateAddress& address);

// None where the arm has no such thing: targets, or sampled pairs. Coverage is that of the arm's routes.
struct ArmStatistics {
  std::optional<double> budget;                      // mean B over routed states
  std::optional<double> student_mass, teacher_mass;  // mean full-vocabulary mass of the support, all states
  std::optional<double> coverage;                    // Routes::coverage_N, mean over routed states
  std::optional<double> loss_variance;               // mean over states; none: too many pairs to sum
  std::optional<double> relative_loss_variance;      // the same over the squared mean loss of a state
  std::optional<double> cycle_violations;            // share of the quadruples
};

// All but the retained masses and the coverage, which the arm's routes have.
ArmStatistics arm_statistics(std::span<const StateDemand> demand_S, const routing::ObjectiveOptions& options);

}  // namespace routeopd::probe
