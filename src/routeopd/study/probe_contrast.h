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

struct ProbeContrast {
  grade::Interval difference;  // first - second
  std::size_t states = 0;      // that have both
};

// The mean of first - second of "fidelity" or "leakage" over the states that have both, with a 95 % percentile bootstrap
// over sequences: a drawn sequence brings all of its states, so that neighbouring states count as one observation. Draws are
// addressed as statistics.h has it, sequences in place of problems. None where states.jsonl lacks either, or has both in
// fewer than kFewestObservations sequences.
std::optional<ProbeContrast> probe_contrast(const ProbeFiles& probe, const ProbedStep& first,
                                            const ProbedStep& second, const char* key);

}  // namespace routeopd::report
