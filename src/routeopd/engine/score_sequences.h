// Log-probabilities of given sequences: every token but the first, under the model that reads those before
// it.
//
// Shapes: a sequence has L tokens and R = L - 1 rows; row t - 1 is the distribution that predicts token t. K
// columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "routeopd/engine/engine.h"

namespace routeopd::engine {

struct GivenSequence {
  std::vector<std::int32_t> ids_L;
  // Ids whose log-probabilities are wanted too, per row; empty: none at all.
  std::vector<std::vector<std::int32_t>> gather_R;
};

struct SequenceScores {
  std::int32_t columns = 0;  // K: min(k, real ids)
  std::vector<float> logprob_R;
  std::vector<float> logsumexp_R;  // of the logits over the real ids
  std::vector<std::int32_t> top_ids_RK;
  std::vector<float> top_logprobs_RK;
  std::vector<std::vector<float>> gathered_R;
};

// In the order given. Ids must be the engine's real ones.
std::vector<SequenceScores> score_sequences(Engine& engine, std::span<const GivenSequence> sequences,
                                            std::int32_t k);

}  // namespace routeopd::engine
