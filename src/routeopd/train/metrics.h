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

// All but time and memory. `step` counts from 1.
StepMetrics step_metrics(std::int64_t step, const Experience& experience, const UpdateResult& update);

// Of each teacher, by name, where there are several; else nothing. `names` are those of the run, in the order
// of Recipe::run_teachers().
std::map<std::string, TeacherMetrics> teacher_metrics(const std::vector<std::string>& names,
                                                      const Experience& experience);

// What was skipped in a step and why, for the log: states that are not valid, updates that were not made.
// Empty where nothing was.
std::string skipped_text(const StepMetrics& metrics, const UpdateResult& update);

}  // namespace routeopd::train
