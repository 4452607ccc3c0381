// Memory of one device by part, with every response at its longest, as `train --dry-run` counts it. All parts
// are added, although an engine's keys and values and the learner's activations need not be there at once: an
// upper bound.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "routeopd/scale/assumptions.h"
#include "routeopd/scale/workload.h"

namespace routeopd::scale {

struct Part {
  std::string name;
  double bytes = 0;
  std::string what;
  bool on_host = false;
};

struct Memory {
  std::vector<Part> parts;
  double usable = 0;      // bytes of the device that a run may take
  double kv_wanted = 0;   // for keys and values of all responses at once, at their longest
  double kv_given = 0;    // what is left for them, at least one longest response
  double concurrent = 0;  // responses of mean length that these hold, at most all

  double device_bytes() const;
  double host_bytes() const;
  bool fits() const { return device_bytes() <= usable; }
  double bytes_of(const std::string& name) const;  // 0: no such part
};

Memory memory_of(const Workload& workload, const Assumptions& assumptions, const Device& device,
                 const Layout& layout);

// Tokens of the largest micro-batch.
double micro_batch_tokens(const Workload& workload, const Assumptions& assumptions, const Layout& layout);

// Bytes of the loss stage beside weights and gradients.
double head_bytes(const Workload& workload, Head head, double tokens);

// The same of a learner that forms all logits of a micro-batch: logits, their copy in float32 where they are
// bfloat16, and log-probabilities.
double whole_logits_bytes(const Workload& workload, double tokens);

}  // namespace routeopd::scale
