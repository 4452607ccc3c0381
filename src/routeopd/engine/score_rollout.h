// The scoring stage: the teacher reads what the student wrote, and both models' values meet.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "routeopd/engine/engine.h"
#include "routeopd/types/scores.h"

namespace routeopd::engine {

struct ScoreOptions {
  std::int32_t k = 32;          // top-k of both models; 0: none, the tokens taken alone
  bool rescore = false;         // run the student's own forward in place of what the rollout captured
  bool teacher_hidden = false;  // keep the teacher's hidden states, for objectives over the whole vocabulary
  std::vector<std::int32_t> pool_ids_NP;  // background ids, -1 pads
  std::int32_t pool_columns = 0;
};

// Fills the student's own columns of `rollout` by a forward over the finished sequences: what capture does
// while decoding, at the price of a second pass. Hidden states are kept where the engine has them and k is
// not 0; the writer's log-probabilities stay as Rollout::engine_logprob_N. Returns why a state cannot be
// used.
std::vector<Validity> rescore(Engine& student, Rollout& rollout, std::int32_t k);

// One teacher pass: its top-k, log-partition, and logits at the student's top-k and at the token taken; then
// the student's logits at the teacher's top-k, and at the pool. A state that either model answered too
// shortly, about other ids, or without finite values is marked with its reason.
// The teacher reads its own prompts where the rollout has some.
Scores score_rollout(Engine& student, Engine& teacher, Rollout& rollout, const ScoreOptions& options);

// The same with several teachers: each reads the responses to the prompts that are its own
// (Rollout::teacher_P), in one pass. Hidden states can be had of one teacher alone.
Scores score_rollout(Engine& student, std::span<Engine* const> teachers, Rollout& rollout,
                     const ScoreOptions& options);

// Tells a rollout what its prompts say of their teachers: which one reads a response, and after what.
void add_teachers(Rollout& rollout, std::span<const Prompt> prompts);

}  // namespace routeopd::engine
