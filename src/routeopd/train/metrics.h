// The metrics of a step (types/step_metrics.h) from its data, and the clock that times its stages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "routeopd/train/learner.h"
#include "routeopd/types/step_metrics.h"

namespace routeopd::train {

// Seconds by stage, step by step.
class StageClock {
 public:
  // Time counts from here.
  void start() { last_ = Clock::now(); }

  // Adds the time since the last call to `stage`.
  void book(const std::string& stage);

  // What was booked since the last take(), and its "total".
  std::map<std::string, double> take();

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
  std::map<std::string, double> seconds_;
};

// Sums and counts over the states of a step, by name: those of several ranks add up. A mean would not.
using Totals = std::map<std::string, double>;

// `teachers`: the names of the run's, in the order of Recipe::run_teachers(); where there are several, each
// has sums of its own.
Totals step_totals(const Experience& experience, const std::vector<std::string>& teachers = {});

// All but time and memory. `step` counts from 1.
StepMetrics step_metrics(std::int64_t step, const Totals& totals, const std::vector<std::string>& teachers,
                         const UpdateResult& update);

// StepMetrics::exchange.
std::map<std::string, double> exchange_metrics(const Exchanged& exchanged, int ranks);

// What was skipped in a step and why, for the log: states that are not valid, updates that were not made.
// Empty where nothing was.
std::string skipped_text(const StepMetrics& metrics, const UpdateResult& update);

}  // namespace routeopd::train
