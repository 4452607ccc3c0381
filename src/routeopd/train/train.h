// A distillation run: Prompt -> Rollout -> Scores -> Routes -> update -> metrics, checkpoint.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "routeopd/ranks/group.h"
#include "routeopd/train/engines.h"
#include "routeopd/train/inputs.h"
#include "routeopd/train/recipe.h"
#include "routeopd/train/run_directory.h"
#include "routeopd/types/step_metrics.h"

namespace routeopd::train {

// Called after each step; the student then has its new weights. A resumed run calls it first for the step
// that it resumes from: what was measured there may have been interrupted.
using StepWatch = std::function<void(const StepMetrics& metrics)>;

// Trains inputs.student in place and fills recipe.out; the recipe has passed check_recipe(). A signal lets
// the step end; it is saved, then Interrupted is thrown. A new run that fails before its first step leaves no
// directory. A resumed run continues from its newest checkpoint that verifies, to the same bits. Returns how
// many steps were made.
std::int64_t train(const Recipe& recipe, Inputs& inputs, const StepWatch& watch = {},
                   Start start = Start::kNew);

// The same with given engines instead of the recipe's own, and with the other ranks of a group: each rank
// calls it with the same recipe and the same inputs, and rank 0 alone has files. Throws UserError, before
// anything is written, where the engines do not give what the arm needs.
std::int64_t train(const Recipe& recipe, Inputs& inputs, Engines engines, const StepWatch& watch = {},
                   Start start = Start::kNew, ranks::Group& group = ranks::alone());

}  // namespace routeopd::train
