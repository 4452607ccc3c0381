// What both models say at the states of a bank, from hidden states: the scoring stage without an engine, one
// row per state of the bank. The forward is the learner's own, so a student that did not move has Delta = 0
// to the last bit.
//
// Shapes: S states of the bank, N states of its responses, V rows of the student's LM head and H its hidden
// size, U and X the teacher's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "routeopd/model/heads/streaming_head.h"
#include "routeopd/model/model.h"
#include "routeopd/probe/bank.h"
#include "routeopd/types/routes.h"
#include "routeopd/types/scores.h"

namespace routeopd::probe {

// Most tokens of one forward: bounds the activations.
inline constexpr std::int64_t kForwardTokens = 1024;

// Last hidden states at the bank's states: [S, H], float32, no gradient.
at::Tensor hidden_at(const model::Model& model, const Rollout& rollout,
                     const std::vector<std::size_t>& states_S);

// Both heads as scoring reads them.
struct ScoringHeads {
  ScoringHeads(const at::Tensor& student_VH, const at::Tensor& teacher_UX, std::int32_t ids)
      : student(student_VH.detach(), ids), teacher(teacher_UX.detach(), ids), real_ids(ids) {}
  model::StreamingHead student, teacher;
  std::int32_t real_ids;
};

// The rows of a bank as a rollout and its scores: what routing reads. There are no responses in it.
struct StateScores {
  Rollout rollout;
  Scores scores;
};
StateScores score_states(const Bank& bank, const at::Tensor& hidden_SH, const ScoringHeads& heads,
                         const routing::ObjectiveOptions& objective);

// One student's problem at every state, with the bank's own objective and seed. Throws UserError where a
// value is not finite.
Frozen freeze(const Bank& bank, const at::Tensor& hidden_SH, const ScoringHeads& heads,
              const at::Tensor& student_head_VH, const at::Tensor& teacher_head_UX);

// Rows of the bank put at their places among the N states of its responses; all other states are not valid.
Routes spread(const Routes& routes, const Bank& bank);
template <class T>
std::vector<T> spread(const std::vector<T>& rows_SW, const Bank& bank, T elsewhere) {
  const std::size_t width = rows_SW.size() / bank.states();
  std::vector<T> all(static_cast<std::size_t>(bank.rollout.states()) * width, elsewhere);
  for (std::size_t s = 0; s < bank.states(); ++s)
    for (std::size_t i = 0; i < width; ++i) all[bank.states_S[s] * width + i] = rows_SW[s * width + i];
  return all;
}

}  // namespace routeopd::probe
