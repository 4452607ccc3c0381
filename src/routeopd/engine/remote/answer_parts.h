// The answers of many requests as one. A part may have fewer columns of top-k than another: ids are padded with
// -1, values with -inf.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "routeopd/engine/engine.h"

namespace routeopd::engine {

// Responses of all parts, one after another; their prompts stay as they are.
Rollout joined_rollouts(std::vector<Rollout>& parts);

// One response of a rollout, as a rollout of its own.
Rollout response_of(const Rollout& rollout, std::size_t response);

Answer joined_answers(std::vector<Answer> parts, std::int64_t gather_columns);

}  // namespace routeopd::engine
