// The vector loops of the routing kernel (Highway, chosen for the processor at run time). Each works on a
// UnionState whose memory is padded, so none has a tail.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "routeopd/routing/union_state.h"

namespace routeopd::routing {

// What is wrong with the columns of a state, seen before anything is computed from them.
struct SlotFlaws {
  bool misaligned = false;  // an id outside [-1, real_ids)
  bool non_finite = false;  // NaN or +inf where an id is given
  bool any_id = false;
};

// Checks slots [0, n), padded with ids of -1, and turns every -1 into kNoId.
SlotFlaws scan_slots(std::int32_t* ids, const float* student, const float* teacher, std::size_t n,
                     std::int32_t real_ids);

// rank[i] = how many of ids[0, n) are smaller than ids[i]. O(n^2 / lanes): for small unions the quickest
// sort.
void rank_ids(const std::int32_t* ids, std::size_t n, std::int32_t* rank);

// From logits on U to the softmaxes, excess, deficit, mass, potential and |D| (eqs. union-distributions to
// teacher-token-potential). `log_delta_p` = log of the probability floor.
void union_imbalance(UnionState& state, float log_delta_p);

// bounded[i] = (B/2) tanh(2 potential[i] / B) for i < n (eq. bounded-potential-target); both have room
// for n rounded up to kUnionPad.
void bounded_potentials(const float* potential, std::size_t n, float budget, float* bounded);

// How many of values[0, n) are at least `bound` in size.
std::size_t count_saturated(const float* values, std::size_t n, float bound);

}  // namespace routeopd::routing
