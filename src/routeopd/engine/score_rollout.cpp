// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/score_rollout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "routeopd/base/error.h"

namespace routeopd::engine {
namespace {

// Of the values that the student captured while it wrote.
std::vector<Validity> captured_validity(const Rollout& rollout, std::int32_t real_ids) {
  std::vector<Validity> validity_N;
  for (std::size_t n = 0; n < rollout.id_N.size(); ++n) {
    const auto row = rollout.top_ids_NK.begin() + static_cast<std::int64_t>(n) * rollout.columns;
    const bool aligned =
        std::all_of(row, row + rollout.columns, [&](std::int32_t id) { return id >= -1 && id < real_ids; });
    // Where no distribution was captured, the token's own log-probability tells.
    const bool finite =
        std::isfinite(rollout.logsumexp_N.empty() ? rollout.logprob_N[n] : rollout.logsumexp_N[n]);
    validity_N.push_back(!aligned ? Validity::kMisaligned : finite ? Validity::kValid : Validity::kNonFinite);
  }
  return validity_N;
}

void join(std::vector<Validity>& validity_N, const std::vector<Validity>& more_N) {
  for (std::size_t n = 0; n < validity_N.size(); ++n) validity_N[n] = first_reason(validity_N[n], more_N[n]);
}

// The student's top-k of each state, and the token taken as the last column. An id that is none is not asked
// for.
std::vector<std::int32_t> ids_asked(const Rollout& rollout, const std::vector<Validity>& validity_N) {
  const auto k = static_cast<std::ptrdiff_t>(rollout.columns);
  std::vector<std::int32_t> ids_NG;
  ids_NG.reserve(rollout.id_N.size() * static_cast<std::size_t>(k + 1));
  for (std::size_t n = 0; n < rollout.id_N.size(); ++n) {
    const auto row = rollout.top_ids_NK.begin() + static_cast<std::ptrdiff_t>(n) * k;
    if (validity_N[n] == Validity::kMisaligned) {
      ids_NG.insert(ids_NG.end(), static_cast<std::size_t>(k), -1);
    } else {
      ids_NG.insert(ids_NG.end(), row, row + k);
    }
    ids_NG.push_back(rollout.id_N[n]);
  }
  return ids_NG;
}

// Neither NaN nor +inf; -inf is a probability of 0.
bool is_log_probability(float value) {
  return value < std::numeric_limits<float>::infinity();
}

// The student's values at ids that the teacher or the pool named. An id whose value its engine cannot tell is
// left out: both models must be known at every id of the union.
std::vector<float> gathered(Engine& student, const Rollout& rollout, std::vector<std::int32_t>& ids_NG,
                            std::int64_t columns, std::vector<Validity>& validity_N) {
  StateValues values = student.gather(rollout, ids_NG, columns);
  join(validity_N, values.validity_N);
  for (std::size_t i = 0; i < values.known_NG.size(); ++i)
    if (values.known_NG[i] == 0) ids_NG[i] = -1;
  return std::move(values.gathered_NG);
}

}  // namespace

std::vector<Validity> rescore(Engine& student, Rollout& rollout, std::int32_t k) {
  StateValues values = student.score(rollout, {.k = k,
                                               .gather_ids_NG = rollout.id_N,
                                               .gather_columns = 1,
                                               .hidden = k > 0 && student.capabilities().hidden_states});
  rollout.columns = values.columns;
  rollout.top_ids_NK = std::move(values.top_ids_NK);
  rollout.top_logits_NK = std::move(values.top_logits_NK);
  rollout.hidden_size = values.hidden_size;
  rollout.hidden_NH = std::move(values.hidden_NH);
  for (std::size_t n = 0; n < rollout.id_N.size(); ++n)
    rollout.logprob_N[n] = values.gathered_NG[n] - values.logsumexp_N[n];
  rollout.logsumexp_N = std::move(values.logsumexp_N);
  return std::move(values.validity_N);
}

Scores score_rollout(Engine& student, Engine& teacher, Rollout& rollout, const ScoreOptions& options) {
  if (student.real_ids() != teacher.real_ids())
    throw UserError("score: the student's engine has {} ids and the teacher's {}; expected one vocabulary",
                    student.real_ids(), teacher.real_ids());
  Scores scores;
  if (options.rescore) scores.validity_N = rescore(student, rollout, options.k);
  ROUTEOPD_INVARIANT(options.k == 0 || std::ssize(rollout.logsumexp_N) == rollout.states());
  if (!options.rescore) scores.validity_N = captured_validity(rollout, student.real_ids());

  const std::vector<std::int32_t> asked_NG = ids_asked(rollout, scores.validity_N);
  const auto k = static_cast<std::size_t>(rollout.columns);
  StateValues read = teacher.score(rollout, {.k = options.k,
                                             .gather_ids_NG = asked_NG,
                                             .gather_columns = static_cast<std::int64_t>(k) + 1,
                                             .hidden = options.teacher_hidden});
  join(scores.validity_N, read.validity_N);
  scores.columns = read.columns;
  scores.teacher_ids_NJ = std::move(read.top_ids_NK);
  scores.teacher_logits_NJ = std::move(read.top_logits_NK);
  scores.hidden_size = read.hidden_size;
  scores.hidden_NX = std::move(read.hidden_NH);
  scores.teacher_tokens = read.tokens_read;
  for (std::size_t n = 0; n < rollout.id_N.size(); ++n) {
    const auto row = read.gathered_NG.begin() + static_cast<std::ptrdiff_t>(n * (k + 1));
    for (std::size_t i = 0; i < k && !read.known_NG.empty(); ++i)
      if (read.known_NG[n * (k + 1) + i] == 0) rollout.top_ids_NK[n * k + i] = -1;
    scores.teacher_at_student_NK.insert(scores.teacher_at_student_NK.end(), row,
                                        row + static_cast<std::ptrdiff_t>(k));
    scores.teacher_logprob_N.push_back(read.gathered_NG[n * (k + 1) + k] - read.logsumexp_N[n]);
    if (!is_log_probability(scores.teacher_logprob_N[n]) || !is_log_probability(rollout.logprob_N[n]))
      scores.validity_N[n] = first_reason(scores.validity_N[n], Validity::kNonFinite);
  }
  scores.teacher_logsumexp_N = std::move(read.logsumexp_N);
  if (scores.columns > 0)
    scores.student_at_teacher_NJ =
        gathered(student, rollout, scores.teacher_ids_NJ, scores.columns, scores.validity_N);
  if (options.pool_columns > 0) {
    scores.pool_columns = options.pool_columns;
    scores.pool_ids_NP = options.pool_ids_NP;
    scores.student_at_pool_NP =
        gathered(student, rollout, scores.pool_ids_NP, scores.pool_columns, scores.validity_N);
  }
  return scores;
}

}  // namespace routeopd::engine
