// What would be moved where at every state of one response, in double precision from the routing reference.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "routeopd/engine/engine.h"
#include "routeopd/routing/options.h"
#include "routeopd/types/explanation.h"
#include "routeopd/types/rollout.h"

namespace routeopd::probe {

// How many of a state's pairs and ids are listed.
inline constexpr std::size_t kExplainedPairs = 12;
inline constexpr std::size_t kExplainedIds = 256;

// Throws UserError for settings that move no pairs: there is nothing to explain then.
void check_explainable(const routing::ObjectiveOptions& options);

// How many of each model's most likely ids a state's union takes: k, or every real id.
std::int32_t explained_columns(const routing::ObjectiveOptions& options, std::int32_t real_ids);

// A given response in place of one that the student wrote; nothing is captured yet. The teacher reads the
// same prompt, unless the rollout is told otherwise (engine::add_teachers).
Rollout given_rollout(const std::vector<std::int32_t>& prompt_ids,
                      const std::vector<std::int32_t>& response_ids);

// A token for every state of `rollout`, which has one response. Pairs are those that `seed` draws at the
// states' addresses. A rollout without captured values is read by the student first.
std::vector<ExplainedToken> explain_rollout(engine::Engine& student, engine::Engine& teacher,
                                            Rollout& rollout, const routing::ObjectiveOptions& options,
                                            std::uint64_t seed);

}  // namespace routeopd::probe
