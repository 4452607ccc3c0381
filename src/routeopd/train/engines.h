// Who writes and who scores in a run. The one place where a recipe becomes engines.
//
// Shapes: U rows of the teacher's LM head, X its hidden size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>

#include "routeopd/engine/engine.h"
#include "routeopd/train/inputs.h"
#include "routeopd/train/recipe.h"

namespace routeopd::train {

struct Engines {
  std::unique_ptr<engine::Engine> student;  // writes; refreshed after every update of the weights that learn
  std::unique_ptr<engine::Engine> teacher;  // scores; null for the sft arm
  // Of a teacher whose weights are here, for the arms over the whole vocabulary; undefined: it has none.
  at::Tensor teacher_head_UX;
};

// Those that the recipe names, over the models of `inputs`.
Engines make_engines(const Recipe& recipe, const Inputs& inputs);

// An engine over a model's weights as they are, exact whatever the rollout's are: for evaluations and probes.
std::unique_ptr<engine::Engine> make_exact_engine(const model::Model& model, std::int32_t real_ids);

// Throws UserError, naming the arm or setting, for engines that cannot give what the recipe's objective
// needs.
void check_engines(const Recipe& recipe, const Engines& engines, std::int32_t real_ids);

}  // namespace routeopd::train
