// Background ids for the destination controls that draw from outside the student's top-k.
//
// Shapes: N states, P = kPoolDraws columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "routeopd/types/rollout.h"

namespace routeopd::routing {

// The pool of every state of a rollout whose top-k is known: [N, P], -1 pads.
std::vector<std::int32_t> background_pools_NP(const Rollout& rollout, std::int32_t real_ids,
                                              std::uint64_t seed);

}  // namespace routeopd::routing
