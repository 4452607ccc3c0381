// Fidelity and leakage of probed steps as cells of tables, and compared in sentences.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "routeopd/report/probe_contrast.h"

namespace routeopd::report {

// "78.5 [73.0, 83.8]", percent, of a probe's row; without the interval where there is none.
std::string spread_cell(const Json& row, const char* key);

// A step and what the paper has of it, in percent.
struct ProbedLevel {
  ProbedStep step;
  std::string shown;
  std::optional<double> paper;
};

// The paper's order of two steps on the same states beside ours; empty where either is unknown.
std::string step_sentence(const ProbeFiles& probe, const char* key, const ProbedLevel& first,
                          const ProbedLevel& second);

}  // namespace routeopd::report
