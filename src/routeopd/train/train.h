// A distillation run: Prompt -> Rollout -> Scores -> Routes -> update -> metrics, checkpoint.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/model/model.h"
#include "routeopd/text/tokenizer.h"
#include "routeopd/train/recipe.h"
#include "routeopd/types/prompt.h"

namespace routeopd::train {

struct Inputs {
  model::Model student;
  std::optional<model::Model> teacher;  // none for the sft arm
  std::int32_t real_ids = 0;
  std::vector<Prompt> prompts;
  const text::Tokenizer* tokenizer = nullptr;  // for rollouts.jsonl
};

// Loads what the recipe names. Throws UserError when something is missing, or the tokenizers differ.
Inputs load_inputs(const Recipe& recipe, const text::Tokenizer& tokenizer);

// Throws UserError when the recipe cannot run on these: too few prompts, ids or lengths out of range, a teacher equal to
// the student.
void check_inputs(const Recipe& recipe, const Inputs& inputs);

// Called after each step with its metrics, `step` from 1; the student then has its new weights.
using StepWatch = std::function<void(std::int64_t step, const Json& metrics)>;

// Trains inputs.student in place and fills recipe.out. On Ctrl-C the last whole step is saved, then Interrupted goes on. A run
// that ends with an error before its first step leaves no directory behind.
void train(const Recipe& recipe, Inputs& inputs, const StepWatch& watch = {});

}  // namespace routeopd::train
