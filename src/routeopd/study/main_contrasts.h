// Figure: every main arm against the reference, with paired intervals.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "routeopd/study/contrast_chart.h"

namespace routeopd::study {

// `reference`: the arm that the others are compared with. Without points the block says what is missing.
Block main_contrasts_figure(const std::vector<ContrastPoint>& points, const std::string& reference);

// The same of a study.
Block main_contrasts(const StudyView& view);

}  // namespace routeopd::study
