// Figures of single run, eval and probe directories, and of several side by side.
//
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

Block eval_accuracy_figure(const std::vector<EvalFiles>& evals);
Block eval_lengths_figure(const std::vector<EvalFiles>& evals);

// Over states, for every arm and intervention.
Block probe_distributions_figure(const std::vector<ProbeFiles>& probes);
// By concentration, mismatch and teacher entropy.
Block probe_strata_figure(const std::vector<ProbeFiles>& probes);

}  // namespace routeopd::report
