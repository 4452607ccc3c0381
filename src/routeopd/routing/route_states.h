// The routing operator over a batch of states, fast: single precision, vectorised, threads over states. Equal
// to `reference` within single precision; O(k + m) per state after the union of the ids.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "routeopd/routing/options.h"
#include "routeopd/types/routes.h"
#include "routeopd/types/state_batch.h"

namespace routeopd::routing {

// Routes every state of the batch. Random numbers come from `seed` and each state's address alone. Fills
// Routes::support where the objective needs it (exact coupling, union KLs) or `with_support` asks for it.
// Throws UserError when a one-sided arm has no log-partitions, or a control no pool.
Routes route_states(const StateBatch& batch, const ObjectiveOptions& options, std::uint64_t seed, int threads,
                    bool with_support = false);

// Whether the objective reads Routes::support.
bool needs_support(const ObjectiveOptions& options);

}  // namespace routeopd::routing
