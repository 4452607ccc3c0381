// The learning rate of each update, and the order of the prompts: pure functions of the recipe.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "routeopd/train/recipe.h"

namespace routeopd::train {

// lr (t + 1) / W for t < W = ceil(warmup * updates), then a cosine to 0 over the rest (or constant).
double learning_rate(const OptimizerSection& optimizer, std::int64_t update, std::int64_t updates);

// Which prompts step `step` asks, as places in the file. The data is walked in passes; each pass has an order of its
// own, drawn from the seed, so that any step can be told without the steps before it.
class PromptOrder {
 public:
  PromptOrder(std::int64_t prompts, const Recipe& recipe);
  std::vector<std::size_t> step(std::int64_t step);

 private:
  void shuffle(std::int64_t pass);

  std::int64_t prompts_;
  std::int64_t per_step_;
  std::uint64_t seed_;
  bool shuffled_;
  std::int64_t pass_ = -1;
  std::vector<std::size_t> order_;  // of the pass at hand
};

}  // namespace routeopd::train
