// How responses change: correctness, errors, lengths and formats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "routeopd/study/study_view.h"

namespace routeopd::study {

std::vector<Block> behaviour_blocks(const StudyView& view);

}  // namespace routeopd::study
