// The learning rate of each update and the prompts of each step: pure functions of the recipe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "routeopd/train/recipe.h"
#include "routeopd/types/prompt.h"

namespace routeopd::train {

// lr (t + 1) / W for t < W = ceil(warmup * updates), then a cosine to 0 over the rest (or constant).
double learning_rate(const OptimizerSection& optimizer, std::int64_t update, std::int64_t updates);

// Which prompts a step asks. The data is walked in passes; each pass has its own order, drawn from the seed,
// so that the prompts of a step do not depend on the steps before it.
class PromptOrder {
 public:
  PromptOrder(std::int64_t prompts, const Recipe& recipe);

  // As places in the file; `step` from 0.
  std::vector<std::size_t> step(std::int64_t step);

  // The prompts themselves, numbered by their place in the step: that is what addresses their random numbers,
  // so that a prompt that comes twice, where one pass ends and the next begins, is answered twice.
  std::vector<Prompt> prompts(const std::vector<Prompt>& all, std::int64_t step);

 private:
  void shuffle(std::int64_t pass);

  std::int64_t prompts_;
  std::int64_t per_step_;
  std::uint64_t seed_;
  bool shuffled_;
  std::int64_t pass_ = -1;
  std::vector<std::size_t> order_;  // of pass_
};

}  // namespace routeopd::train
