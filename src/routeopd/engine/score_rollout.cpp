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

const std::vector<std::int32_t>& teacher_prompt(const Rollout& rollout, std::size_t prompt) {
  const auto& own_P = rollout.teacher_prompt_ids_P;
  return own_P.empty() || own_P[prompt].empty() ? rollout.prompt_ids_P[prompt] : own_P[prompt];
}

// What one teacher reads, with the prompts that it is given: lengths and ids, nothing of the student's.
struct Reading {
  Rollout rollout;
  std::vector<std::int32_t> gather_NG;
  std::vector<std::size_t> state_N;  // of the whole rollout
};

Reading reading_of(const Rollout& rollout, std::int32_t teacher, std::span<const std::int32_t> gather_NG,
                   std::size_t columns) {
  Reading part;
  std::vector<std::int32_t> place_P(rollout.prompt_ids_P.size(), -1);
  for (const Response& response : rollout.responses_B) {
    const auto prompt = static_cast<std::size_t>(response.prompt);
    if ((rollout.teacher_P.empty() ? 0 : rollout.teacher_P[prompt]) != teacher) continue;
    if (place_P[prompt] < 0) {
      place_P[prompt] = static_cast<std::int32_t>(part.rollout.prompt_ids_P.size());
      part.rollout.prompt_ids_P.push_back(teacher_prompt(rollout, prompt));
    }
    Response& own = part.rollout.responses_B.emplace_back(response);
    own.prompt = place_P[prompt];
    own.first_state = part.rollout.states();
    for (std::int64_t j = 0; j < response.length; ++j) {
      const auto n = static_cast<std::size_t>(response.first_state + j);
      part.state_N.push_back(n);
      part.rollout.id_N.push_back(rollout.id_N[n]);
      const auto row = gather_NG.subspan(n * columns, columns);
      part.gather_NG.insert(part.gather_NG.end(), row.begin(), row.end());
    }
  }
  return part;
}

// Puts rows of `width` values in their places among `states` rows that are `all_width` wide.
template <class T>
void put_rows(const std::vector<T>& rows, std::size_t width, const std::vector<std::size_t>& state_N,
              std::size_t all_width, std::vector<T>& all) {
  for (std::size_t i = 0; i < state_N.size(); ++i)
    std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(i * width), width,
                all.begin() + static_cast<std::ptrdiff_t>(state_N[i] * all_width));
}

// The values of all states, each as its own teacher gave them; the narrower top-k are padded.
StateValues read_by(std::span<Engine* const> teachers, const Rollout& rollout, const ScoreRequest& request,
                    std::vector<std::int64_t>& tokens_T) {
  const auto states = static_cast<std::size_t>(rollout.states()),
             g = static_cast<std::size_t>(request.gather_columns);
  std::vector<Reading> parts;
  std::vector<StateValues> values_T;
  StateValues all;
  bool some_unknown = false;
  for (std::size_t t = 0; t < teachers.size(); ++t) {
    const Reading& part =
        parts.emplace_back(reading_of(rollout, static_cast<std::int32_t>(t), request.gather_ids_NG, g));
    StateValues& values = values_T.emplace_back();
    tokens_T.push_back(0);
    if (part.state_N.empty()) continue;  // none of the step's prompts is its own
    values = teachers[t]->score(part.rollout, {.k = request.k,
                                               .gather_ids_NG = part.gather_NG,
                                               .gather_columns = request.gather_columns,
                                               .hidden = request.hidden});
    tokens_T.back() = values.tokens_read;
    all.tokens_read += values.tokens_read;
    all.columns = std::max(all.columns, values.columns);
    some_unknown = some_unknown || !values.known_NG.empty();
  }
  if (teachers.size() == 1 && values_T.front().validity_N.size() == states)
    return std::move(values_T.front());
  const auto j = static_cast<std::size_t>(all.columns);
  constexpr float kNotAnswered = std::numeric_limits<float>::quiet_NaN();
  all.top_ids_NK.assign(states * j, -1);
  all.top_logits_NK.assign(states * j, kNotAnswered);
  all.logsumexp_N.assign(states, kNotAnswered);
  all.gathered_NG.assign(states * g, kNotAnswered);
  if (some_unknown) all.known_NG.assign(states * g, 1);
  all.validity_N.assign(states, Validity::kTruncatedScores);
  for (std::size_t t = 0; t < parts.size(); ++t) {
    const std::vector<std::size_t>& state_N = parts[t].state_N;
    const auto own = static_cast<std::size_t>(values_T[t].columns);
    put_rows(values_T[t].top_ids_NK, own, state_N, j, all.top_ids_NK);
    put_rows(values_T[t].top_logits_NK, own, state_N, j, all.top_logits_NK);
    put_rows(values_T[t].logsumexp_N, 1, state_N, 1, all.logsumexp_N);
    put_rows(values_T[t].gathered_NG, g, state_N, g, all.gathered_NG);
    if (!values_T[t].known_NG.empty()) put_rows(values_T[t].known_NG, g, state_N, g, all.known_NG);
    put_rows(values_T[t].validity_N, 1, state_N, 1, all.validity_N);
    values_T[t] = {};
  }
  return all;
}

// One teacher that reads what the student read needs no copy of it.
StateValues teachers_values(std::span<Engine* const> teachers, const Rollout& rollout,
                            const ScoreRequest& request, std::vector<std::int64_t>& tokens_T) {
  if (teachers.size() > 1 || !rollout.teacher_prompt_ids_P.empty())
    return read_by(teachers, rollout, request, tokens_T);
  StateValues values = teachers.front()->score(rollout, request);
  tokens_T = {values.tokens_read};
  return values;
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
  if (rollout.engine_logprob_N.empty()) rollout.engine_logprob_N = rollout.logprob_N;
  for (std::size_t n = 0; n < rollout.id_N.size(); ++n)
    rollout.logprob_N[n] = values.gathered_NG[n] - values.logsumexp_N[n];
  rollout.logsumexp_N = std::move(values.logsumexp_N);
  return std::move(values.validity_N);
}

void add_teachers(Rollout& rollout, std::span<const Prompt> prompts) {
  ROUTEOPD_INVARIANT(rollout.prompt_ids_P.size() == prompts.size());
  rollout.teacher_prompt_ids_P.clear();
  rollout.teacher_P.clear();
  if (std::ranges::any_of(prompts, [](const Prompt& prompt) { return !prompt.teacher_ids.empty(); }))
    for (const Prompt& prompt : prompts) rollout.teacher_prompt_ids_P.push_back(prompt.teacher_ids);
  if (std::ranges::any_of(prompts, [](const Prompt& prompt) { return prompt.teacher != 0; }))
    for (const Prompt& prompt : prompts) rollout.teacher_P.push_back(prompt.teacher);
}

Scores score_rollout(Engine& student, Engine& teacher, Rollout& rollout, const ScoreOptions& options) {
  Engine* const only = &teacher;
  return score_rollout(student, std::span(&only, 1), rollout, options);
}

Scores score_rollout(Engine& student, std::span<Engine* const> teachers, Rollout& rollout,
                     const ScoreOptions& options) {
  ROUTEOPD_INVARIANT(!teachers.empty() && (teachers.size() == 1 || !options.teacher_hidden));
  for (const std::int32_t teacher : rollout.teacher_P)
    ROUTEOPD_INVARIANT(teacher >= 0 && teacher < std::ssize(teachers));
  for (const Engine* const teacher : teachers)
    if (student.real_ids() != teacher->real_ids())
      throw UserError("score: the student's engine has {} ids and the teacher's {}; expected one vocabulary",
                      student.real_ids(), teacher->real_ids());
  Scores scores;
  if (options.rescore) scores.validity_N = rescore(student, rollout, options.k);
  ROUTEOPD_INVARIANT(options.k == 0 || std::ssize(rollout.logsumexp_N) == rollout.states());
  if (!options.rescore) scores.validity_N = captured_validity(rollout, student.real_ids());

  const std::vector<std::int32_t> asked_NG = ids_asked(rollout, scores.validity_N);
  const auto k = static_cast<std::size_t>(rollout.columns);
  StateValues read = teachers_values(teachers, rollout,
                                     {.k = options.k,
                                      .gather_ids_NG = asked_NG,
                                      .gather_columns = static_cast<std::int64_t>(k) + 1,
                                      .hidden = options.teacher_hidden},
                                     scores.teacher_tokens_T);
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
    if (!is_log_probability(scores.teacher_logprob_N[n]) || !is_log_probability(rollout.logprob_N[n]) ||
        !is_log_probability(rollout.written_logprob_N()[n]))
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
