// Seconds of one step by stage, from rooflines: a stage takes the longer of its operations at the device's
// rate of products and its bytes at the memory's bandwidth, each times an assumed share of the peak.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "routeopd/scale/memory.h"
#include "routeopd/scale/share.h"

namespace routeopd::scale {

struct Stage {
  std::string name;  // rollout | score | route | learn | communication
  double seconds = 0;
  std::string what;
};

// Of the busiest device; the stages follow one another.
std::vector<Stage> stages_of(const Workload& workload, const Assumptions& assumptions, const Device& device,
                             const Layout& layout, const Memory& memory);

// The parts, for those who want one alone.
struct Rollout {
  double seconds = 0;
  double forwards = 0;          // that write a token for every sequence which is not at its end
  double overhead_seconds = 0;  // of them
};
Rollout rollout_of(const Workload& workload, const Assumptions& assumptions, const Device& device,
                   const Share& share, double concurrent);
double score_seconds(const Workload& workload, const Assumptions& assumptions, const Device& device,
                     const Share& share);
double learn_seconds(const Workload& workload, const Assumptions& assumptions, const Device& device,
                     const Layout& layout, const Share& share, Head head);
double head_seconds(const Workload& workload, const Assumptions& assumptions, const Device& device,
                    const Share& share, Head head);
// Bytes that pass every device's link in a step.
double sent_bytes(const Workload& workload, const Assumptions& assumptions, const Layout& layout,
                  const Share& share, Head head);

}  // namespace routeopd::scale
