// Two interventions on the same frozen states, state by state.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "routeopd/grade/statistics.h"
#include "routeopd/report/run_files.h"

namespace routeopd::report {

struct ProbedStep {
  std::string name;          // an arm
  std::string intervention;  // "fresh_adamw"
};

// The mean of first - second of "fidelity" or "leakage" over the states that have both, with a 95 % percentile bootstrap
// over sequences: a drawn sequence brings all of its states, so that neighbouring states count as one observation. Draws are
// addressed as statistics.h has it, sequences in place of problems. None where states.jsonl lacks either.
std::optional<grade::Interval> probe_contrast(const ProbeFiles& probe, const ProbedStep& first,
                                              const ProbedStep& second, const char* key);

}  // namespace routeopd::report
