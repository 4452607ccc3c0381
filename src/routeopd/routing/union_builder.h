// Forms the union of both models' top-k at one state (eq. topk-union) inside the fast kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "routeopd/routing/union_state.h"
#include "routeopd/types/state_batch.h"
#include "routeopd/types/validity.h"

namespace routeopd::routing {

// Ids and logits of state `at` of the batch into `state`: deduplicated, ids ascending, without ids at -inf in
// the student. Returns why the state cannot be used, or kValid.
Validity build_union(const StateBatch& batch, std::int64_t at, UnionState& state);

// How many ids a union of this batch can have at most, before deduplication.
std::size_t union_bound(const StateBatch& batch);

}  // namespace routeopd::routing
