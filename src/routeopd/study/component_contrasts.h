// Figure: what each component of the method is worth. Every control against fixed_mid, in blocks by what is
// varied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "routeopd/study/contrast_chart.h"

namespace routeopd::study {

// Without points the block says what is missing.
Block component_contrasts_figure(const std::vector<ContrastPoint>& points);

// The same of a study.
Block component_contrasts(const StudyGrades& grades);

}  // namespace routeopd::study
