// How long a study still takes: what is left, at the pace that was measured so far.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace routeopd::lab {

class StudyPace {
 public:
  // More work than was known before; negative counts take it away again.
  void add(std::int64_t steps, std::int64_t evaluations) {
    steps_left_ += steps;
    evaluations_left_ += evaluations;
  }

  // So many of those ended, and took so long together.
  void stepped(double seconds, std::int64_t steps = 1) {
    steps_left_ -= steps;
    step_seconds_ += seconds;
    steps_made_ += steps;
  }
  void evaluated(double seconds) {
    --evaluations_left_;
    evaluation_seconds_ += seconds;
    ++evaluations_made_;
  }

  // Below 0: a kind of work is left of which none was measured yet.
  double seconds_left() const {
    if ((steps_left_ > 0 && steps_made_ == 0) || (evaluations_left_ > 0 && evaluations_made_ == 0)) return -1;
    return part(steps_left_, step_seconds_, steps_made_) +
           part(evaluations_left_, evaluation_seconds_, evaluations_made_);
  }

 private:
  static double part(std::int64_t left, double seconds, std::int64_t made) {
    return left <= 0 || made == 0 ? 0 : static_cast<double>(left) * seconds / static_cast<double>(made);
  }

  std::int64_t steps_left_ = 0, evaluations_left_ = 0;
  std::int64_t steps_made_ = 0, evaluations_made_ = 0;
  double step_seconds_ = 0, evaluation_seconds_ = 0;
};

}  // namespace routeopd::lab
