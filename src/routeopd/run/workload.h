// A recipe as a workload on paper: the numbers that scale/ predicts from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "routeopd/formats/model_config.h"
#include "routeopd/scale/assumptions.h"
#include "routeopd/scale/workload.h"
#include "routeopd/train/recipe.h"
#include "routeopd/types/prompt.h"

namespace routeopd::run {

// `teachers` in the order of Recipe::run_teachers(). A recipe must be resolved.
scale::Workload workload_of(const train::Recipe& recipe, const formats::ModelConfig& student,
                            const std::vector<formats::ModelConfig>& teachers);

// What prompts that could be read tell: the longest, and means that are not assumed otherwise. Responses of
// the sft arm are given with them.
void count_prompts(const std::vector<Prompt>& prompts, scale::Workload& workload,
                   scale::Assumptions& assumptions);

}  // namespace routeopd::run
