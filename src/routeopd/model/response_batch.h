// Responses of a rollout as packed sequences, each behind its prompt, for the learner's forward over what was
// written. A prompt is read once for its responses that stand behind one another.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>

#include "routeopd/model/packed_batch.h"
#include "routeopd/types/rollout.h"

namespace routeopd::model {

struct ResponseBatch {
  PackedBatch packed;
  at::Tensor
      state_places;  // int64: where each response state stands, the state of token j at the token before it
  std::int64_t first_state = 0;
  std::int64_t end_state = 0;
};

// Responses [first, end), which must not be empty. The order of states is the rollout's.
ResponseBatch pack_responses(const Rollout& rollout, std::size_t first, std::size_t end);

// The largest end > first such that responses [first, end) have at most `tokens` tokens, a shared prompt
// counted once, or hold one response.
std::size_t portion_end(const Rollout& rollout, std::size_t first, std::size_t end, std::int64_t tokens);

}  // namespace routeopd::model
