// The sweeps over the size of the support and the number of pairs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "routeopd/study/study_view.h"

namespace routeopd::study {

std::vector<Block> sweep_blocks(const StudyView& view);

}  // namespace routeopd::study
