// What a study would take, told before anything is trained: runs, tokens, hours, disk. From configurations,
// prompts and problems alone; no weights are read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "routeopd/study/study_files.h"

namespace routeopd::study {

// Every response at its longest, so that tokens, hours and disk are at most these.
struct StudyEstimate {
  std::int64_t student_parameters = 0, teacher_parameters = 0;
  std::int64_t trials = 0;       // of the part tune, before its grid is extended
  std::int64_t runs = 0;         // at the arms' own rates
  std::int64_t shared_runs = 0;  // at the shared one, unless an arm's own is the same
  std::int64_t steps = 0;        // of all trials and runs
  std::int64_t evaluations = 0;  // of all suites, or of the validation problems
  std::int64_t probe_rows = 0;   // updates that are tried on frozen states
  double written_tokens = 0;     // by students for training
  double teacher_tokens = 0;     // read by the teacher
  double judged_tokens = 0;      // written to be judged
  double operations = 0;         // floating-point, of all of it
  double operations_per_second = 0;
  double checkpoint_bytes = 0, response_bytes = 0;

  double hours() const { return operations / operations_per_second / 3600; }
};

// `rate`: floating-point operations per second to reckon with; 0: that of a matrix product, measured now.
StudyEstimate estimate_study(const StudyTerms& terms, const std::vector<std::string>& parts, double rate = 0);

std::string estimate_text(const StudyEstimate& estimate, const StudyTerms& terms);
Json json_of(const StudyEstimate& estimate);

}  // namespace routeopd::study
