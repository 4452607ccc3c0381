// How far the main arms end from the teacher on held-out states.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "routeopd/study/study_view.h"

namespace routeopd::study {

// None where nothing was measured.
std::vector<Block> distance_blocks(const StudyView& view);

}  // namespace routeopd::study
