// The reference's drawing of pairs: the product coupling and the destination controls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "routeopd/base/philox.h"
#include "routeopd/routing/reference.h"

namespace routeopd::routing::reference {

// Up to kPoolDraws distinct addressed ids outside the student's top-k, in the order drawn.
Ids background_pool(const Ids& student_top_k, std::int32_t real_ids, std::uint64_t seed,
                    const StateAddress& address);

// The pool with the student's logits at it.
struct Pool {
  Ids ids;
  Values student_logits;
};

// m independent draws from q- x q+, sampled by inverse distribution function from the words of addressed draw
// i: word 0 draws a, word 1 draws b, word 2 draws a control's b'. Empty when the state is not routed, or when
// a control finds no destination.
std::vector<Pair> sample_pairs(const Transport& state, const Pool& pool, const ObjectiveOptions& options,
                               std::uint64_t seed, const StateAddress& address);

}  // namespace routeopd::routing::reference
