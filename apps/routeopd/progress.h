// A progress line on a terminal, a plain line now and then elsewhere, with the time left.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace routeopd::app {

// "1:02:03" or "2:03".
std::string clock_text(double seconds);

class Progress {
 public:
  // `total` units of work, or -1 where it is not known. Prints nothing when `quiet`, nor in the first second.
  Progress(std::string label, std::int64_t total, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` of the total, and what to show beside it.
  void update(std::int64_t done, const std::string& note);

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  std::int64_t total_;
  bool quiet_;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_;
};

}  // namespace routeopd::app
