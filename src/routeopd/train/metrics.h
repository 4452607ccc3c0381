// What a step says of itself: one object of metrics.jsonl. All but `time` and `memory` are reproducible.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "routeopd/base/fields.h"
#include "routeopd/train/learner.h"

namespace routeopd::train {

// Seconds by stage, a step at a time.
class StageClock {
 public:
  // Time passes from here: what went before is nobody's.
  void start() { last_ = Clock::now(); }

  // Books the time since the last call under `stage`.
  void book(const std::string& stage);

  // What was booked since the last take(), with its total.
  Json take();

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
  Json seconds_ = Json::object();
};

// `step` counts from 1.
Json step_metrics(std::int64_t step, const Experience& experience, const UpdateResult& update);

// What was left out of a step and why, for the log: states that are not valid, updates that were not made. Empty where
// nothing was.
std::string left_out(const Json& metrics, const UpdateResult& update);

}  // namespace routeopd::train
