// The study: the parts of the paper's experiments on one pair. A part names the runs and measurements it needs; what
// another part has made is used again, and what is done is never done twice.
//
//   main        the main arms: accuracy with paired intervals, beside the untrained student and the teacher
//   ablations   destination, objective and budget
//   sweeps      k and m
//   dynamics    the main arms on the way, first seed
//   mechanism   probes on frozen states; accuracy by the concentration of the teacher's demand
//   cost        time and memory of every arm, and of route construction
//   behaviour   what became of right and wrong responses, their lengths, formats and kinds of error
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "routeopd/lab/study_files.h"

namespace routeopd::lab {

// What is going on.
struct StudyProgress {
  std::string part{};
  std::string what{};                // the run's name, or what is measured
  std::int64_t run = 0, runs = 0;    // which of how many; 0: no run
  std::int64_t step = 0, steps = 0;  // of the run; 0: none
  std::string note{};
  double seconds_left = -1;  // of all parts asked for; below 0: not known yet
};
using StudyWatch = std::function<void(const StudyProgress&)>;

// Throws Interrupted when a signal asks for it; the same call then goes on where it was.
void run_study(StudyFiles& files, const std::vector<std::string>& parts, const StudyWatch& watch);

}  // namespace routeopd::lab
