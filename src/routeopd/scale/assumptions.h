// Everything that a plan takes for granted, each a named number that the plan prints and that
// `--assume NAME=VALUE` changes. One table of fields gives each its name, its meaning and its range.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routeopd/base/fields.h"
#include "routeopd/scale/device.h"

namespace routeopd::scale {

struct Assumptions {
  // Of the data. docs/plan.md says where the values come from.
  double response_tokens = 0;  // mean; 0: every response at its longest
  double length_spread = 0.7;  // of the logarithm of lengths, where the mean is below the longest
  double prompt_tokens = 0;    // mean; 0: counted in the prompts

  // Shares of a device's best.
  double learner = 0.5;    // products of forward and backward
  double reading = 0.5;    // products without gradients: prompts, scores
  double bandwidth = 0.7;  // memory, while tokens are written and weights updated
  double link = 0.7;       // of links and network in collectives
  double usable = 0.9;     // of the memory

  // Seconds.
  double decode_overhead = 0.005;  // of an engine's forward that writes one token a sequence, beside its work
  double route_seconds = 0.72e-6;  // of one state, on one core of the host
};

const Fields<Assumptions>& assumption_fields();

// The defaults for a device. Those of the CPU are fitted, once (docs/plan.md).
Assumptions assumptions_for(const Device& device);

// "NAME=VALUE". Throws UserError for an unknown name, with the nearest one, or a value out of range.
void assume(Assumptions& assumptions, const std::string& word);

}  // namespace routeopd::scale
