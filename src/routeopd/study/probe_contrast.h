// Fidelity and leakage of probed steps: two compared state by state, as cells of tables, and in sentences
// beside the paper's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "routeopd/grade/statistics.h"
#include "routeopd/report/run_files.h"
#include "routeopd/study/effects.h"

namespace routeopd::study {

// The intervention that tables compare arms by.
inline constexpr const char* kStep = "fresh_adamw";

struct ProbedStep {
  std::string name;          // an arm
  std::string intervention;  // kStep, or another one
};

struct ProbeContrast {
  grade::Interval difference;  // first - second
  std::size_t states = 0;      // that have both
};

// The mean of first - second of "fidelity" or "leakage" over the states that have both, with a 95 %
// percentile bootstrap over sequences: a drawn sequence brings all of its states, so that neighbouring states
// count as one observation. Draws are addressed as statistics.h has it, sequences in place of problems. None
// where states.jsonl lacks either, or has both in fewer than kFewestObservations sequences.
std::optional<ProbeContrast> probe_contrast(const report::ProbeFiles& probe, const ProbedStep& first,
                                            const ProbedStep& second, const char* key);

// "78.5 [73.0, 83.8]", percent, of a probe's row; without the interval where there is none.
std::string spread_cell(const Json& row, const char* key);

// A step and what the paper has of it, in percent.
struct ProbedLevel {
  ProbedStep step;
  std::string shown;
  std::optional<double> paper;
};

// The paper's order of two steps on the same states beside ours; nothing where either is unknown.
void add_step_verdict(const report::ProbeFiles& probe, const char* key, const ProbedLevel& first,
                      const ProbedLevel& second, std::vector<Verdict>& verdicts);

}  // namespace routeopd::study
