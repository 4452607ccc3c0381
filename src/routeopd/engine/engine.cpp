// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace routeopd::engine {
namespace {

constexpr float kNoValue = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t kWidestHidden = 1 << 24;

bool is_id(std::int32_t id, std::int32_t real_ids) {
  return id >= 0 && id < real_ids;
}

// Checks of one engine's answers. Lengths come first: ids and values are read only when all are known to be
// there.
class AnswerCheck {
 public:
  explicit AnswerCheck(const Engine& engine) : engine_(engine), real_ids_(engine.real_ids()) {}

  void can_give_hidden(bool wanted) const {
    if (wanted && !engine_.capabilities().hidden_states)
      throw UserError("engine {}: hidden states were asked for, and it has none; use the local engine",
                      engine_.name());
  }

  void can_give_entropy(bool wanted) const {
    if (wanted && !engine_.capabilities().entropy)
      throw UserError("engine {}: entropies were asked for, and it has none; use the local engine",
                      engine_.name());
  }

  // All responses that were asked for, in order.
  void rollout(const Rollout& rollout, std::span<const Prompt> prompts, const Sampling& sampling,
               const Capture& capture) const {
    const bool same =
        std::equal(rollout.prompt_ids_P.begin(), rollout.prompt_ids_P.end(), prompts.begin(), prompts.end(),
                   [](const auto& ids, const Prompt& p) { return ids == p.ids; });
    if (!same) throw UserError("engine {}: its rollout has other prompts than were given", engine_.name());
    responses(rollout, prompts, sampling, capture);
    std::size_t next = 0;
    for (std::size_t p = 0; !sampling.discard && p < prompts.size(); ++p) {
      const std::int64_t count = sampling.samples_P.empty() ? sampling.n : std::ssize(sampling.samples_P[p]);
      for (std::int64_t i = 0; i < count; ++i, ++next) {
        const std::int64_t sample =
            sampling.samples_P.empty() ? i : sampling.samples_P[p][static_cast<std::size_t>(i)];
        if (next < rollout.responses_B.size() &&
            rollout.responses_B[next].prompt == static_cast<std::int32_t>(p) &&
            rollout.responses_B[next].sample == sample)
          continue;
        throw UserError("engine {}: response {} to prompt {} is missing, or not in its place", engine_.name(),
                        sample, p);
      }
    }
    if (next != rollout.responses_B.size())
      throw UserError("engine {}: its rollout has {} responses; expected {}", engine_.name(),
                      rollout.responses_B.size(), next);
  }

  // Any of them. Top-k ids are judged where they are used, state by state.
  void responses(const Rollout& rollout, std::span<const Prompt> prompts, const Sampling& sampling,
                 const Capture& capture) const {
    const std::int64_t states = rollout.states();
    columns(rollout.columns, capture.k);
    if (states > 0) hidden(rollout.hidden_size, capture.hidden);
    size("log-probabilities", rollout.logprob_N.size(), states, 1);
    size("log-partitions", rollout.logsumexp_N.size(), states, capture.k > 0 || capture.hidden ? 1 : 0);
    size("entropies", rollout.entropy_N.size(), states, capture.entropy ? 1 : 0);
    size("top ids", rollout.top_ids_NK.size(), states, rollout.columns);
    size("top logits", rollout.top_logits_NK.size(), states, rollout.columns);
    size("values of hidden states", rollout.hidden_NH.size(), states, rollout.hidden_size);
    std::int64_t next = 0;
    for (const Response& response : rollout.responses_B) {
      if (response.prompt < 0 || response.prompt >= std::ssize(prompts) || response.sample < 0 ||
          response.sample >= sampling.n)
        throw UserError("engine {}: response {} to prompt {} was not asked for", engine_.name(),
                        response.sample, response.prompt);
      if (response.first_state != next || response.length < 1 || response.length > sampling.max_new_tokens)
        throw UserError(
            "engine {}: response {} to prompt {} has {} tokens from {} on; expected 1 to {} from {} on",
            engine_.name(), response.sample, response.prompt, response.length, response.first_state,
            sampling.max_new_tokens, next);
      next += response.length;
    }
    size("ids", rollout.id_N.size(), next, 1);
    for (const std::int32_t id : rollout.id_N)
      if (!is_id(id, real_ids_))
        throw UserError("engine {}: it wrote id {}, outside the vocabulary of {} ids", engine_.name(), id,
                        real_ids_);
  }

  // The answer to a request, laid out over all states of the rollout.
  StateValues values(Answer answer, const Rollout& rollout, const ScoreRequest& request,
                     bool with_partition) const {
    sizes(answer, rollout, request, with_partition);
    StateValues values = std::move(answer.values);
    std::vector<std::int64_t> row_N;
    match_rows(values, answer, rollout, row_N);
    bool whole = true;
    for (std::size_t n = 0; n < row_N.size(); ++n) whole = whole && row_N[n] == static_cast<std::int64_t>(n);
    if (whole) return values;
    const std::int64_t partitions = with_partition || !values.logsumexp_N.empty() ? 1 : 0;
    lay_out(values.top_ids_NK, row_N, values.columns, -1);
    lay_out(values.top_logits_NK, row_N, values.columns, kNoValue);
    lay_out(values.logsumexp_N, row_N, partitions, kNoValue);
    lay_out(values.gathered_NG, row_N, request.gather_columns, kNoValue);
    if (!values.known_NG.empty()) lay_out(values.known_NG, row_N, request.gather_columns, std::uint8_t{0});
    lay_out(values.hidden_NH, row_N, values.hidden_size, 0.0F);
    return values;
  }

 private:
  void size(const char* what, std::size_t got, std::int64_t rows, std::int64_t width) const {
    if (static_cast<std::int64_t>(got) != rows * width)
      throw UserError("engine {}: its answer has {} {} for {} rows; expected {}", engine_.name(), got, what,
                      rows, rows * width);
  }

  void columns(std::int32_t got, std::int32_t k) const {
    const std::int32_t most = std::min(k, real_ids_);
    if (got > most || got < std::min(most, 1))
      throw UserError("engine {}: its answer has {} ids of a top {}", engine_.name(), got, most);
  }

  void hidden(std::int64_t got, bool wanted) const {
    if (got < 0 || got > kWidestHidden || (got > 0) != wanted)
      throw UserError("engine {}: its answer has hidden states of {} values; expected {}", engine_.name(),
                      got, wanted ? "at least one" : "none");
  }

  void sizes(const Answer& answer, const Rollout& rollout, const ScoreRequest& request,
             bool with_partition) const {
    const StateValues& values = answer.values;
    const std::int64_t rows = std::ssize(answer.id_N);
    size("lengths", answer.rows_B.size(), std::ssize(rollout.responses_B), 1);
    std::int64_t left = rows;
    for (const std::int64_t count : answer.rows_B) {
      if (count < 0 || count > left)
        throw UserError("engine {}: its answer has {} rows; its lengths say more", engine_.name(), rows);
      left -= count;
    }
    if (left != 0)
      throw UserError("engine {}: its answer has {} rows; its lengths say {}", engine_.name(), rows,
                      rows - left);
    columns(values.columns, request.k);
    hidden(values.hidden_size, request.hidden);
    if (with_partition || !values.logsumexp_N.empty())
      size("log-partitions", values.logsumexp_N.size(), rows, 1);
    size("top ids", values.top_ids_NK.size(), rows, values.columns);
    size("top logits", values.top_logits_NK.size(), rows, values.columns);
    size("gathered values", values.gathered_NG.size(), rows, request.gather_columns);
    if (!values.known_NG.empty())
      size("marks of known values", values.known_NG.size(), rows, request.gather_columns);
    size("values of hidden states", values.hidden_NH.size(), rows, values.hidden_size);
  }

  // Each state's row of the answer (-1: none that speaks of it), and its reason. From the first token on that
  // the engine read otherwise, its rows are about another text; so are all of an answer that has more rows
  // than tokens.
  void match_rows(StateValues& values, const Answer& answer, const Rollout& rollout,
                  std::vector<std::int64_t>& row_N) const {
    const auto states = static_cast<std::size_t>(rollout.states());
    values.validity_N.assign(states, Validity::kTruncatedScores);
    row_N.assign(states, -1);
    std::int64_t first_row = 0;
    for (std::size_t b = 0; b < rollout.responses_B.size(); ++b) {
      const Response& response = rollout.responses_B[b];
      bool same_text = answer.rows_B[b] <= response.length;
      for (std::int64_t j = 0; j < std::min(answer.rows_B[b], response.length); ++j) {
        const auto n = static_cast<std::size_t>(response.first_state + j),
                   row = static_cast<std::size_t>(first_row + j);
        same_text = same_text && answer.id_N[row] == rollout.id_N[n];
        const bool aligned = same_text && top_is_real(values, row);
        if (aligned) row_N[n] = first_row + j;
        values.validity_N[n] = !aligned               ? Validity::kMisaligned
                               : !finite(values, row) ? Validity::kNonFinite
                                                      : Validity::kValid;
      }
      first_row += answer.rows_B[b];
    }
  }

  bool top_is_real(const StateValues& values, std::size_t row) const {
    const auto first = values.top_ids_NK.begin() + static_cast<std::int64_t>(row) * values.columns;
    return std::all_of(first, first + values.columns,
                       [&](std::int32_t id) { return id == -1 || is_id(id, real_ids_); });
  }

  static bool finite(const StateValues& values, std::size_t row) {
    return values.logsumexp_N.empty() || std::isfinite(values.logsumexp_N[row]);
  }

  template <class T>
  static void lay_out(std::vector<T>& values, const std::vector<std::int64_t>& row_N, std::int64_t width,
                      T none) {
    std::vector<T> all(row_N.size() * static_cast<std::size_t>(width), none);
    for (std::size_t n = 0; n < row_N.size(); ++n) {
      if (row_N[n] >= 0)
        std::copy_n(values.begin() + row_N[n] * width, width,
                    all.begin() + static_cast<std::int64_t>(n) * width);
    }
    values = std::move(all);
  }

  const Engine& engine_;
  std::int32_t real_ids_;
};

}  // namespace

Rollout Engine::generate(std::span<const Prompt> prompts, const Sampling& sampling, const Capture& capture,
                         const Watch& watch) {
  const AnswerCheck check(*this);
  check.can_give_hidden(capture.hidden);
  check.can_give_entropy(capture.entropy);
  Watch checked;
  if (watch) {
    checked = [&](std::int64_t done, std::int64_t total, const Rollout& one) {
      check.responses(one, prompts, sampling, capture);
      if (one.responses_B.size() != 1)
        throw UserError("engine {}: told of {} responses at a time; expected one", name(),
                        one.responses_B.size());
      watch(done, total, one);
    };
  }
  Rollout rollout = write_responses(prompts, sampling, capture, checked);
  check.rollout(rollout, prompts, sampling, capture);
  rollout.address_N.clear();
  for (const Response& response : rollout.responses_B) {
    for (std::int64_t j = 0; j < response.length; ++j)
      rollout.address_N.push_back({.step = sampling.step,
                                   .prompt = prompts[static_cast<std::size_t>(response.prompt)].number,
                                   .response = static_cast<std::uint32_t>(response.sample),
                                   .position = static_cast<std::uint32_t>(j)});
  }
  return rollout;
}

StateValues Engine::score(const Rollout& rollout, const ScoreRequest& request) {
  ROUTEOPD_INVARIANT(std::ssize(request.gather_ids_NG) == rollout.states() * request.gather_columns);
  const AnswerCheck check(*this);
  check.can_give_hidden(request.hidden);
  return check.values(read_responses(rollout, request), rollout, request, /*with_partition=*/true);
}

StateValues Engine::gather(const Rollout& rollout, std::span<const std::int32_t> ids_NG,
                           std::int64_t columns) {
  ROUTEOPD_INVARIANT(std::ssize(ids_NG) == rollout.states() * columns);
  const ScoreRequest request{.gather_ids_NG = ids_NG, .gather_columns = columns};
  return AnswerCheck(*this).values(gather_values(rollout, ids_NG, columns), rollout, request,
                                   /*with_partition=*/false);
}

Answer Engine::gather_values(const Rollout& rollout, std::span<const std::int32_t> ids_NG,
                             std::int64_t columns) {
  return read_responses(rollout, {.gather_ids_NG = ids_NG, .gather_columns = columns});
}

}  // namespace routeopd::engine
