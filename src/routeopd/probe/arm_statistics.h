// What an arm asks for on a bank, before any step: how much of the demand its pairs cover, how much its loss varies over
// redraws of them, and whether its targets can all hold at once. In double precision, on the bank's supports.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "routeopd/probe/bank.h"
#include "routeopd/routing/options.h"

namespace routeopd::probe {

// Quadruples drawn a state to look for cycle violations.
inline constexpr std::uint32_t kCycleDraws = 64;

// None where the arm has no such thing: targets, or sampled pairs.
struct ArmStatistics {
  std::optional<double> budget;    // mean B over routed states
  std::optional<double> coverage;  // mean share of q+ on the distinct destinations of the m pairs
  std::optional<double>
      loss_variance;  // of the token loss at Delta = 0 over redraws of the m pairs, mean over routed states
  std::optional<double> relative_loss_variance;  // the same over the squared mean loss of a routed state
  std::optional<double> cycle_violations;        // share of the quadruples
};

// `k` of the options must be the bank's or smaller than the supports allow: the supports are the bank's.
ArmStatistics arm_statistics(const Bank& bank, const Frozen& frozen,
                             const routing::ObjectiveOptions& options);

}  // namespace routeopd::probe
