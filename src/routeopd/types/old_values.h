// What an arm compares the current student with, where that is the learner's own: its values by its own
// forward before the first update of a step. The rollout's engine gives the same quantities (Routes::old_NM,
// Support::old_logits_L, Rollout::logprob_N), rounded its own way.
//
// Shapes: N states, M pairs per state, L = sum of the support sizes of all states.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace routeopd {

// Arms fill the one that they read.
struct OldValues {
  std::vector<float> pair_NM;    // a pair's log-odds, or the log-probability of one of its tokens
  std::vector<float> support_L;  // logits
  std::vector<float> logprob_N;  // of the token taken
};

}  // namespace routeopd
