//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/score_rollout.h"

#include <cmath>
#include <utility>

#include "routeopd/base/error.h"

namespace routeopd::engine {

void rescore(Engine& student, Rollout& rollout, std::int32_t k) {
  ScoreRequest request{.k = k, .gather_ids_NG = rollout.id_N, .gather_columns = 1, .hidden = true};
  StateValues values = student.score(rollout, request);
  rollout.columns = values.columns;
  rollout.top_ids_NK = std::move(values.top_ids_NK);
  rollout.top_logits_NK = std::move(values.top_logits_NK);
  rollout.hidden_size = values.hidden_size;
  rollout.hidden_NH = std::move(values.hidden_NH);
  for (std::size_t n = 0; n < rollout.id_N.size(); ++n)
    rollout.logprob_N[n] = values.gathered_NG[n] - values.logsumexp_N[n];
  rollout.logsumexp_N = std::move(values.logsumexp_N);
}

Scores score_rollout(Engine& student, Engine& teacher, Rollout& rollout, const ScoreOptions& options) {
  if (options.rescore) rescore(student, rollout, options.k);
  ROUTEOPD_INVARIANT(std::ssize(rollout.logsumexp_N) == rollout.states());
  const auto states = static_cast<std::size_t>(rollout.states());
  const auto k = static_cast<std::size_t>(rollout.columns);

  // The token taken rides along as the last column.
  std::vector<std::int32_t> wanted_NG;
  wanted_NG.reserve(states * (k + 1));
  for (std::size_t n = 0; n < states; ++n) {
    const auto row = rollout.top_ids_NK.begin() + static_cast<std::ptrdiff_t>(n * k);
    wanted_NG.insert(wanted_NG.end(), row, row + static_cast<std::ptrdiff_t>(k));
    wanted_NG.push_back(rollout.id_N[n]);
  }
  StateValues read = teacher.score(rollout, {.k = options.k,
                                             .gather_ids_NG = wanted_NG,
                                             .gather_columns = static_cast<std::int64_t>(k) + 1,
                                             .hidden = options.teacher_hidden});
  Scores scores;
  scores.columns = read.columns;
  scores.teacher_ids_NJ = std::move(read.top_ids_NK);
  scores.teacher_logits_NJ = std::move(read.top_logits_NK);
  scores.hidden_size = read.hidden_size;
  scores.hidden_NX = std::move(read.hidden_NH);
  scores.teacher_tokens = read.tokens_read;
  for (std::size_t n = 0; n < states; ++n) {
    const auto row = read.gathered_NG.begin() + static_cast<std::ptrdiff_t>(n * (k + 1));
    scores.teacher_at_student_NK.insert(scores.teacher_at_student_NK.end(), row,
                                        row + static_cast<std::ptrdiff_t>(k));
    scores.teacher_logprob_N.push_back(read.gathered_NG[n * (k + 1) + k] - read.logsumexp_N[n]);
    const bool finite = std::isfinite(read.logsumexp_N[n]) && std::isfinite(rollout.logsumexp_N[n]);
    scores.validity_N.push_back(finite ? Validity::kValid : Validity::kNonFinite);
  }
  scores.teacher_logsumexp_N = std::move(read.logsumexp_N);
  if (scores.columns > 0)
    scores.student_at_teacher_NJ = student.gather(rollout, scores.teacher_ids_NJ, scores.columns);
  if (options.pool_columns > 0) {
    scores.pool_columns = options.pool_columns;
    scores.pool_ids_NP = options.pool_ids_NP;
    scores.student_at_pool_NP = student.gather(rollout, scores.pool_ids_NP, scores.pool_columns);
  }
  return scores;
}

}  // namespace routeopd::engine
