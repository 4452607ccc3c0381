// How a step's responses are cut into optimizer batches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "routeopd/types/rollout.h"

namespace routeopd::train {

// What the ranks of a group answer together in a step; of one process the rollout says it.
struct StepSize {
  std::int64_t prompts = 0;  // 0: the rollout has all of them
  std::int32_t n = 1;        // responses per prompt
};

// Ranges [first, end) of the rollout's responses, those of the whole step cut as equally as can be: at most
// as many as it has responses, so that none is empty. A rank has the part of each range that it wrote, which
// may be empty: a range holds the same responses in any number of ranks.
inline std::vector<std::pair<std::size_t, std::size_t>> minibatches_of(const Rollout& rollout,
                                                                       std::int32_t wanted,
                                                                       const StepSize& step = {}) {
  const std::size_t own = rollout.responses_B.size();
  const std::size_t responses =
      step.prompts == 0 ? own : static_cast<std::size_t>(step.prompts) * static_cast<std::size_t>(step.n);
  const auto place = [&](std::size_t b) {  // among the responses of the step
    if (step.prompts == 0) return b;
    const StateAddress& at = rollout.address_N[static_cast<std::size_t>(rollout.responses_B[b].first_state)];
    return std::size_t{at.prompt} * static_cast<std::size_t>(step.n) + at.response;
  };
  const std::size_t parts = std::min(static_cast<std::size_t>(wanted), responses);
  std::vector<std::pair<std::size_t, std::size_t>> all;
  std::size_t first = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    std::size_t end = first;
    while (end < own && place(end) < responses * (part + 1) / parts) ++end;
    all.emplace_back(first, end);
    first = end;
  }
  return all;
}

}  // namespace routeopd::train
