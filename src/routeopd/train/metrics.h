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

// Seconds by stage.
class StageClock {
 public:
  // Books the time since the last call, or since the clock was made, under `stage`.
  void book(const std::string& stage);
  Json seconds() const;
  double total() const { return total_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
  Json seconds_ = Json::object();
  double total_ = 0;
};

// `step` counts from 1.
Json step_metrics(std::int64_t step, const Experience& experience, const UpdateResult& update);

}  // namespace routeopd::train
