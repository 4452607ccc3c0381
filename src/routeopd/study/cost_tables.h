// What a step costs, and how much of it is the making of routes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "routeopd/study/study_view.h"

namespace routeopd::study {

std::vector<Block> cost_blocks(const StudyView& view);

}  // namespace routeopd::study
