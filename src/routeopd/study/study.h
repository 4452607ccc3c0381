// Runs a study: the parts of the paper's experiments (parts.h) on one pair. A part names the runs and
// measurements it needs; what another part has made is used again, and what is done is never done twice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "routeopd/study/study_files.h"

namespace routeopd::study {

// What is being done.
struct StudyProgress {
  std::string part{};
  std::string what{};                // the run's name, or what is measured
  std::int64_t run = 0, runs = 0;    // which of how many; 0: no run
  std::int64_t step = 0, steps = 0;  // of the run; 0: none
  std::string note{};
  double seconds_left = -1;  // of all parts asked for; below 0: not known yet
};
using StudyWatch = std::function<void(const StudyProgress&)>;

// `parts`: names of all_parts(). Throws Interrupted when a signal asks for it; the same call then resumes.
void run_study(StudyFiles& files, const std::vector<std::string>& parts, const StudyWatch& watch);

}  // namespace routeopd::study
