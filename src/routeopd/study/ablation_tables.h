// Ablations of destination, objective and budget; how targets are realized; accuracy by concentration.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "routeopd/study/study_view.h"

namespace routeopd::study {

// What they show of the paper\'s effects is added to `verdicts`.
std::vector<Block> ablation_blocks(const StudyView& view, std::vector<Verdict>& verdicts);

}  // namespace routeopd::study
