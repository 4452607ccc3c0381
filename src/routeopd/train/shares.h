// Which of a step's prompts each rank answers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "routeopd/train/recipe.h"
#include "routeopd/types/prompt.h"

namespace routeopd::train {

// Places of the prompts of each rank, ascending. Dealt from the prompts and the recipe alone, so that every
// rank and every resumed run knows them: within each minibatch the longest prompts first, each to the rank
// that so far expects the fewest tokens. How long a response becomes is not known; all are expected to be the
// longest.
std::vector<std::vector<std::size_t>> share_out(const std::vector<Prompt>& prompts, const Recipe& recipe,
                                                int ranks);

}  // namespace routeopd::train
