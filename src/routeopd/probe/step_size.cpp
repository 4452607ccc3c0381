// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/step_size.h"

#include "routeopd/probe/summary.h"

namespace routeopd::probe {

std::vector<StepSize> step_sizes(Prober& prober, const ProbeArm& arm, std::span<const double> rates) {
  std::vector<StepSize> sizes;
  for (const Prober::UpdateAtRate& update : prober.updates_at(arm, rates)) {
    const Realization realized = realization(update.changes, prober.bank().objective.delta_target);
    const RealizedShares shares = realized_shares(update.changes, prober.bank());
    sizes.push_back({.lr = update.lr,
                     .rms = update.rms,
                     .pairs = realized.pairs,
                     .completion = realized.completion,
                     .overshoot = realized.overshoot,
                     .completion_interval = shares.completion,
                     .overshoot_interval = shares.overshoot});
  }
  return sizes;
}

}  // namespace routeopd::probe
