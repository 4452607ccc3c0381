// Figure: what each component of the method is worth. Every control against fixed_mid, in blocks by what is
// varied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "routeopd/study/study_view.h"

namespace routeopd::study {

struct ContrastPoint {
  std::string block;  // "Destination"
  std::string name;   // of the variant
  Estimate contrast;  // Avg@n minus fixed_mid's, points
  std::optional<double> paper;
};
// Without points the block says what is missing.
Block component_contrasts_figure(const std::vector<ContrastPoint>& points);

// The same of a study.
Block component_contrasts(const StudyGrades& grades);

}  // namespace routeopd::study
