// The main table, the paired contrasts and the distances to the teacher.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "routeopd/study/study_view.h"

namespace routeopd::study {

// What they show of the paper\'s effects is added to `verdicts`.
std::vector<Block> accuracy_blocks(const StudyView& view, std::vector<Verdict>& verdicts);

}  // namespace routeopd::study
