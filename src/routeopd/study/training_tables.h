// Training over its steps, and where it ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "routeopd/study/study_view.h"

namespace routeopd::study {

// What they show of the paper\'s effects is added to `verdicts`.
std::vector<Block> training_blocks(const StudyView& view, std::vector<Verdict>& verdicts);

}  // namespace routeopd::study
