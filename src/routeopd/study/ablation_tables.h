// Ablations of destination, objective and budget; how targets are realized; accuracy by concentration.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "routeopd/study/study_view.h"

namespace routeopd::study {

std::vector<Block> ablation_blocks(const StudyView& view);

}  // namespace routeopd::study
