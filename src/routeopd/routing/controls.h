// The destination controls of the fast kernel: where a pair's mass is sent instead of to the drawn deficit
// token; and the pools of background ids, outside the student's top-k, that three of them draw from.
//
// Shapes: N states, P = kPoolDraws columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "routeopd/routing/options.h"
#include "routeopd/routing/union_state.h"
#include "routeopd/types/rollout.h"

namespace routeopd::routing {

// The destination of a pair: its id, the behaviour student's logit there, and its position in U, or -1 where
// it lies outside D and nothing asks for the position. id -1: the control found none.
struct ControlledDestination {
  std::int32_t id = -1;
  float student_logit = 0;
  std::int32_t position = -1;
};

// What the controls need of a state beyond its union; working memory of one thread.
class Controls {
 public:
  // `pool_ids` may hold -1 pads. Prepares what `options.destination` needs.
  void begin_state(const UnionState& state, std::span<const std::int32_t> pool_ids,
                   std::span<const float> student_at_pool, const ObjectiveOptions& options);

  // The destination of the drawn pair (positions a, b in U) for the uniform number u.
  ControlledDestination choose(std::size_t a, std::size_t b, float u);

 private:
  struct Candidate {
    std::int32_t id;
    float student_logit;
    std::int32_t deficit_position;  // in U, or -1 outside D
    bool kept_out = false;          // has a rank, and is never chosen
  };
  ControlledDestination at_position(std::size_t position) const;
  ControlledDestination uniform_over(std::span<const Candidate> among, float u) const;

  const UnionState* state_ = nullptr;
  const ObjectiveOptions* options_ = nullptr;
  std::vector<Candidate> candidates_;  // deficit ids, the pool, or U and pool by rank
  std::vector<Candidate> among_;       // those a pair may choose from
  std::vector<std::size_t> rank_of_;   // position in U -> rank in candidates_
};

// The pool of every state of a rollout whose top-k is known: [N, P], -1 pads.
std::vector<std::int32_t> background_pools_NP(const Rollout& rollout, std::int32_t real_ids,
                                              std::uint64_t seed);

}  // namespace routeopd::routing
