// Training over its steps, and where it ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "routeopd/study/study_view.h"

namespace routeopd::study {

std::vector<Block> training_blocks(const StudyView& view);

}  // namespace routeopd::study
