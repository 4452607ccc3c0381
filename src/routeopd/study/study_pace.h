// How long a study still takes: what is left, at the pace that was measured so far.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

namespace routeopd::study {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class StudyPace {
 public:
  // More work than was known before; negative counts remove it again. Rows are those of the probes, and
  // making the bank is one more.
  void add(std::int64_t steps, std::int64_t evaluations, std::int64_t rows = 0) {
    steps_.left += steps;
    evaluations_.left += evaluations;
    rows_.left += rows;
  }

  // So many of those ended, and took so long together.
  void stepped(double seconds, std::int64_t steps = 1) { steps_.end(seconds, steps); }
  void evaluated(double seconds) { evaluations_.end(seconds, 1); }
  void probed(double seconds) { rows_.end(seconds, 1); }

  std::int64_t steps() const { return steps_.left; }
  std::int64_t evaluations() const { return evaluations_.left; }
  std::int64_t rows() const { return rows_.left; }

  // Below 0: a kind of work is left of which none was measured yet.
  double seconds_left() const {
    // The probes come late. Until one was measured, a row counts as a step: both run about as many responses
    // forward and backward.
    const double row = rows_.made > 0 ? rows_.each() : steps_.each();
    double seconds = 0;
    for (const auto& [left, each] :
         {std::pair(steps_.left, steps_.each()), std::pair(evaluations_.left, evaluations_.each()),
          std::pair(rows_.left, row)}) {
      if (left <= 0) continue;
      if (each < 0) return -1;
      seconds += static_cast<double>(left) * each;
    }
    return seconds;
  }

 private:
  struct Kind {
    std::int64_t left = 0, made = 0;
    double seconds = 0;  // of those that were made

    void end(double took, std::int64_t count) {
      left -= count;
      made += count;
      seconds += took;
    }
    // Seconds of one; below 0: not known.
    double each() const { return made > 0 ? seconds / static_cast<double>(made) : -1; }
  };

  Kind steps_, evaluations_, rows_;
};

}  // namespace routeopd::study
