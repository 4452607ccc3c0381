// Probe results as JSON, fractions throughout: means with intervals over sequences, quantiles, realization,
// strata.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routeopd/base/fields.h"
#include "routeopd/grade/statistics.h"
#include "routeopd/probe/arm_statistics.h"
#include "routeopd/probe/bank.h"
#include "routeopd/probe/prober.h"

namespace routeopd::probe {

// {"mean","p10","median","low","high","states"} of the values that are not NaN; low and high are the 95 %
// interval of the mean, a bootstrap over the bank's sequences. Nulls where there is no value.
Json spread_of(const std::vector<double>& values_S, const Bank& bank);

// Completion and overshoot with 95 % intervals, a bootstrap over the bank's sequences; NaN where no pair has
// a substantive target.
struct RealizedShares {
  grade::Interval completion, overshoot;
};
RealizedShares realized_shares(const Changes& changes, const Bank& bank);

// One row of probe.json with its strata.
Json summary_of(const ProbeRow& row, const Bank& bank, const Frozen& frozen);

// What the bank's states are: mass, concentration, budget, routed share, retained masses, sign agreement,
// entropies.
Json bank_statistics(const Bank& bank, const Frozen& frozen);

Json json_of(const ProbeArm& arm, const ArmStatistics& statistics);

}  // namespace routeopd::probe
