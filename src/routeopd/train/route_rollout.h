// The routing stage: from what both models said to what should move.
//
// Shapes: V rows of the student's LM head and H its hidden size, U and X the teacher's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "routeopd/engine/score_rollout.h"
#include "routeopd/routing/options.h"
#include "routeopd/types/rollout.h"
#include "routeopd/types/routes.h"
#include "routeopd/types/scores.h"

namespace routeopd::train {

// The LM heads, for support over the whole vocabulary: logits are then formed from hidden states, a chunk of
// states at a time.
struct Heads {
  at::Tensor student_VH;
  at::Tensor teacher_UX;  // undefined where no arm walks the vocabulary
  std::int32_t real_ids = 0;
};

// Whether the teacher's hidden states are kept: the objective or its support walks the whole vocabulary.
bool needs_teacher_hidden(const routing::ObjectiveOptions& options);

// What the scoring stage must bring for these options, background pool included.
engine::ScoreOptions score_options(const routing::ObjectiveOptions& options, const Rollout& rollout,
                                   bool rescore, std::uint64_t seed, std::int32_t real_ids);

// What the rollout must capture for these options.
engine::Capture capture_options(const routing::ObjectiveOptions& options);

// For a loss that reads no routes, where nobody else does: the tokens taken, and for full_rkl and full_fkl
// the teacher's hidden states.
engine::ScoreOptions taken_score_options(const routing::ObjectiveOptions& options, bool rescore);

// No routes: which states are valid, and nothing else.
Routes unrouted(const Scores& scores);

Routes route_rollout(const Rollout& rollout, const Scores& scores, const routing::ObjectiveOptions& options,
                     std::uint64_t seed, const Heads& heads);

}  // namespace routeopd::train
