// Figures of runs over their steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "routeopd/report/block.h"
#include "routeopd/report/run_files.h"

namespace routeopd::report {

// Loss, mass, entropy, lengths and what else metrics.jsonl and probe.jsonl hold, over steps.
Block run_curves_figure(const std::vector<RunFiles>& runs);

// Seconds of a step by what they go to.
Block run_time_figure(const std::vector<RunFiles>& runs);

}  // namespace routeopd::report
