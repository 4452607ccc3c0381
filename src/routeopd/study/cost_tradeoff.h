// Figure: accuracy against what a step costs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "routeopd/study/study_view.h"

namespace routeopd::study {

struct CostPoint {
  std::string name;   // of the variant
  Estimate overhead;  // of a step's time over sampled_rkl's, percent
  Estimate accuracy;  // Avg@n, percent
  double peak_bytes = 0;
  double k = 0;  // of a variant of the k sweep, the order of its line; 0: another arm
};
// Without points the block says what is missing.
Block cost_tradeoff_figure(const std::vector<CostPoint>& points);

// The same of a study.
Block cost_tradeoff(const StudyResults& study, const StudyGrades& grades);

}  // namespace routeopd::study
