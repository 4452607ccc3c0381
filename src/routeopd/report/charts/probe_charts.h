// Figures of probes: where interventions go, over states and by stratum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "routeopd/report/block.h"
#include "routeopd/report/run_files.h"

namespace routeopd::report {

// Over states, for every arm and intervention.
Block probe_distributions_figure(const std::vector<ProbeFiles>& probes);

// By concentration, mismatch and teacher entropy.
Block probe_strata_figure(const std::vector<ProbeFiles>& probes);

}  // namespace routeopd::report
