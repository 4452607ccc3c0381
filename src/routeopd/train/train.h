// A distillation run: Prompt -> Rollout -> Scores -> Routes -> update -> metrics, checkpoint.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "routeopd/base/fields.h"
#include "routeopd/train/engines.h"
#include "routeopd/train/inputs.h"
#include "routeopd/train/recipe.h"
#include "routeopd/train/run_directory.h"

namespace routeopd::train {

// Called after each step with its metrics, `step` from 1; the student then has its new weights. A run that goes on calls it
// first for the step it goes on from: what was watched there may not have come to its end.
using StepWatch = std::function<void(std::int64_t step, const Json& metrics)>;

// Trains inputs.student in place and fills recipe.out. A signal lets the step end; it is saved, then Interrupted goes on. A
// new run that ends with an error before its first step leaves no directory behind. A resumed run takes its newest
// checkpoint that verifies, and goes on to the same bits. Returns how many steps were made.
std::int64_t train(const Recipe& recipe, Inputs& inputs, const StepWatch& watch = {},
                   Start start = Start::kNew);

// The same with engines given in place of the recipe's own. Throws UserError, before anything is written, where they do
// not give what the arm needs.
std::int64_t train(const Recipe& recipe, Inputs& inputs, Engines engines, const StepWatch& watch = {},
                   Start start = Start::kNew);

}  // namespace routeopd::train
