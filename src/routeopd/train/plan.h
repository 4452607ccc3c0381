// What a run will need, told before it begins: memory by part at the longest responses, tokens a step, what the teacher
// reads. From configurations and prompts alone; no weights are read.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/tokenizer/tokenizer.h"
#include "routeopd/train/recipe.h"

namespace routeopd::train {

struct MemoryPart {
  std::string name;
  std::int64_t bytes = 0;
  std::string what;
};

struct Plan {
  std::int64_t student_parameters = 0, teacher_parameters = 0;
  std::int64_t prompts = 0, too_long = 0;  // usable ones; those left out
  double prompt_tokens = 0;                // mean
  std::int64_t longest_prompt = 0;
  std::string unchecked;  // contamination_of() the recipe's prompts

  // A step, with every response at its longest.
  std::int64_t responses = 0;
  std::int64_t response_tokens = 0;
  std::int64_t teacher_calls = 0;   // responses that the teacher reads
  std::int64_t teacher_tokens = 0;  // with the prompts once each
  std::int64_t learner_tokens = 0;  // of a pass over the step's data
  std::int64_t micro_batches = 0;   // about so many
  std::int64_t updates = 0;

  std::int64_t steps = 0;
  double passes = 0;  // over the prompts

  std::vector<MemoryPart> memory;
  std::int64_t available_bytes = 0;

  std::int64_t total_bytes() const;
  bool fits() const { return total_bytes() <= available_bytes; }
};

// Throws UserError as load_inputs() does, but for what stands in the weights.
Plan plan_run(const Recipe& recipe, const tokenizer::Tokenizer& tokenizer);

std::string plan_text(const Plan& plan, const Recipe& recipe);
Json plan_json(const Plan& plan);

}  // namespace routeopd::train
