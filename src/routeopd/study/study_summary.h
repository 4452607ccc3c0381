// A study in a few lines for a terminal: what was run, how well each arm does, and what the intervals show.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "routeopd/grade/statistics.h"
#include "routeopd/study/study_files.h"

namespace routeopd::study {

// One variant over its seeds, against the reference variant.
struct VariantSummary {
  std::string name;
  std::optional<double> lr;
  std::vector<double> per_seed;  // Avg@n, of the complete runs
  double average = 0;
  grade::Interval contrast;  // paired on (seed, problem, sample), over problems
};

struct StudySummary {
  std::int64_t samples = 0;
  std::string reference;           // what the contrasts are with; empty: no run is complete
  double base = -1, teacher = -1;  // Avg@n; below 0: not there
  std::vector<VariantSummary> variants;
  std::string rates;               // which learning rates the arms have, in a sentence; may be empty
  std::vector<std::string> notes;  // of the study, and of its parts: what is missing, and why
};

// `results` is what lies in the study's directory.
StudySummary summarize(const StudyFiles& files, const StudyResults& results);

std::string summary_text(const StudySummary& summary);
Json json_of(const StudySummary& summary);

}  // namespace routeopd::study
