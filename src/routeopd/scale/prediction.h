// A run on paper: memory, seconds and hours on a number of devices, and what the pair head changes in them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/scale/stages.h"

namespace routeopd::scale {

// The pair head against a dense one, everything else as it is.
struct PairHead {
  double dense_seconds = 0, pair_seconds = 0;  // of learning and communication, a step
  double dense_bytes = 0, pair_bytes = 0;      // of the loss stage, a device
  double whole_logits_bytes = 0;               // of a learner that forms a micro-batch's logits at once
};

struct Prediction {
  Device device;
  Layout layout;
  Assumptions assumptions;
  Workload workload;

  Memory memory;
  std::vector<Stage> stages;
  PairHead head;

  double step_seconds() const;
  double stage_seconds(const std::string& name) const;  // 0: no such stage
  double step_tokens() const;                           // of all responses
  double run_tokens() const { return workload.steps * step_tokens(); }
  double hours() const { return workload.steps * step_seconds() / 3600; }
  double gpu_hours() const { return hours() * static_cast<double>(layout.gpus); }
};

// Pure: the same numbers give the same answer. assumptions.prompt_tokens must be known by now.
Prediction predict(const Workload& workload, const Assumptions& assumptions, const Device& device,
                   const Layout& layout);

std::string prediction_text(const Prediction& prediction);
Json prediction_json(const Prediction& prediction);

}  // namespace routeopd::scale
