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

// Ranges [first, end) of responses, as equal as can be; none is empty: at most as many as responses.
inline std::vector<std::pair<std::size_t, std::size_t>> minibatches_of(const Rollout& rollout,
                                                                       std::int32_t wanted) {
  const std::size_t responses = rollout.responses_B.size();
  const std::size_t parts = std::min(static_cast<std::size_t>(wanted), responses);
  std::vector<std::pair<std::size_t, std::size_t>> all;
  for (std::size_t part = 0; part < parts; ++part)
    all.emplace_back(responses * part / parts, responses * (part + 1) / parts);
  return all;
}

}  // namespace routeopd::train
