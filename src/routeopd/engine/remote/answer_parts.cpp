// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/remote/answer_parts.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "routeopd/base/error.h"

namespace routeopd::engine {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

template <class T>
void append(std::vector<T>& all, std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
  std::exchange(more, {});  // an answer's memory is not held twice
}

// Rows of `from` columns as rows of `to`.
template <class T>
void append_wider(std::vector<T>& all, std::vector<T>& more, std::int32_t from, std::int32_t to, T pad) {
  if (from == to || from == 0) {
    if (from == to) append(all, more);
    return;
  }
  for (auto row = more.begin(); row != more.end(); row += from) {
    all.insert(all.end(), row, row + from);
    all.insert(all.end(), static_cast<std::size_t>(to - from), pad);
  }
  std::exchange(more, {});
}

// Parts must agree on what cannot be padded.
void same_hidden_size(std::int64_t& all, std::int64_t part) {
  if (all != 0 && all != part)
    throw UserError("servers: hidden states of {} and of {} values; expected one model behind all of them",
                    all, part);
  all = part;
}

}  // namespace

Rollout joined_rollouts(std::vector<Rollout>& parts) {
  Rollout all;
  for (const Rollout& part : parts) all.columns = std::max(all.columns, part.columns);
  for (Rollout& part : parts) {
    const std::int64_t first = all.states();
    for (Response response : part.responses_B) {
      response.first_state += first;
      all.responses_B.push_back(response);
    }
    if (part.states() > 0) same_hidden_size(all.hidden_size, part.hidden_size);
    if (part.columns == 0 && all.columns > 0 && part.states() > 0)
      throw UserError("servers: an answer has no top-k, and others have {}", all.columns);
    append_wider(all.top_ids_NK, part.top_ids_NK, part.columns, all.columns, -1);
    append_wider(all.top_logits_NK, part.top_logits_NK, part.columns, all.columns, kMinusInfinity);
    append(all.id_N, part.id_N);
    append(all.logprob_N, part.logprob_N);
    append(all.logsumexp_N, part.logsumexp_N);
    append(all.entropy_N, part.entropy_N);
    append(all.hidden_NH, part.hidden_NH);
  }
  return all;
}

Rollout response_of(const Rollout& rollout, std::size_t response) {
  const Response& from = rollout.responses_B[response];
  const auto part = [&](const auto& values, std::int64_t width) {
    const auto first = values.begin() + (values.empty() ? 0 : from.first_state * width);
    return std::remove_cvref_t<decltype(values)>(first, first + (values.empty() ? 0 : from.length * width));
  };
  Rollout one;
  one.responses_B = {from};
  one.responses_B[0].first_state = 0;
  one.columns = rollout.columns;
  one.hidden_size = rollout.hidden_size;
  one.id_N = part(rollout.id_N, 1);
  one.logprob_N = part(rollout.logprob_N, 1);
  one.logsumexp_N = part(rollout.logsumexp_N, 1);
  one.entropy_N = part(rollout.entropy_N, 1);
  one.top_ids_NK = part(rollout.top_ids_NK, rollout.columns);
  one.top_logits_NK = part(rollout.top_logits_NK, rollout.columns);
  one.hidden_NH = part(rollout.hidden_NH, rollout.hidden_size);
  return one;
}

Answer joined_answers(std::vector<Answer> parts, std::int64_t gather_columns) {
  Answer all;
  StateValues& values = all.values;
  bool all_known = true;
  for (const Answer& part : parts) {
    values.columns = std::max(values.columns, part.values.columns);
    all_known = all_known && part.values.known_NG.empty();
  }
  for (Answer& part : parts) {
    StateValues& more = part.values;
    const bool has_rows = !part.id_N.empty();
    if (has_rows) same_hidden_size(values.hidden_size, more.hidden_size);
    if (has_rows && more.columns == 0 && values.columns > 0) {  // no row of it has a top-k
      more.top_ids_NK.assign(part.id_N.size(), -1);
      more.top_logits_NK.assign(part.id_N.size(), kMinusInfinity);
      more.columns = 1;
    }
    if (!all_known && more.known_NG.empty())
      more.known_NG.assign(part.id_N.size() * static_cast<std::size_t>(gather_columns), 1);
    append_wider(values.top_ids_NK, more.top_ids_NK, more.columns, values.columns, -1);
    append_wider(values.top_logits_NK, more.top_logits_NK, more.columns, values.columns, kMinusInfinity);
    append(values.logsumexp_N, more.logsumexp_N);
    append(values.gathered_NG, more.gathered_NG);
    append(values.known_NG, more.known_NG);
    append(values.hidden_NH, more.hidden_NH);
    values.tokens_read += more.tokens_read;
    append(all.rows_B, part.rows_B);
    append(all.id_N, part.id_N);
  }
  return all;
}

}  // namespace routeopd::engine
