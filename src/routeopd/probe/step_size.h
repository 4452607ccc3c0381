// How far one unscaled update goes towards its targets, over the learning rate: updates far smaller than
// their targets rank early speed, updates of their size show what bounded targets are for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "routeopd/grade/statistics.h"
#include "routeopd/probe/prober.h"

namespace routeopd::probe {

struct StepSize {
  double lr = 0;
  double rms = 0;                       // change of log-odds over the bank's frozen pairs
  std::int64_t pairs = 0;               // with a substantive target
  double completion = 0;                // mean of clip(achieved / target, 0, 1) over them
  double overshoot = 0;                 // share of them over target + delta_target
  grade::Interval completion_interval;  // 95 %, a bootstrap over the bank's sequences
  grade::Interval overshoot_interval;
};

// One fresh-AdamW update of the arm at each rate, as `probe run --rms none` has it: the arm's own pairs where
// it draws pairs, else the bank's. The gradient is formed once.
std::vector<StepSize> step_sizes(Prober& prober, const ProbeArm& arm, std::span<const double> rates);

}  // namespace routeopd::probe
