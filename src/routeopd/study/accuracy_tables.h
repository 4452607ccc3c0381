// The main table and the paired contrasts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "routeopd/study/study_view.h"

namespace routeopd::study {

std::vector<Block> accuracy_blocks(const StudyView& view);

}  // namespace routeopd::study
