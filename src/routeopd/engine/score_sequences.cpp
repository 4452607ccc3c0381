// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/score_sequences.h"

#include <algorithm>
#include <cmath>

#include "routeopd/base/error.h"

namespace routeopd::engine {
namespace {

// A sequence as a response to its own first token. Sequences of one token predict nothing and are skipped.
Rollout as_rollout(std::span<const GivenSequence> sequences) {
  Rollout rollout;
  for (const GivenSequence& sequence : sequences) {
    const auto& ids = sequence.ids_L;
    if (ids.size() < 2) continue;
    rollout.responses_B.push_back({.prompt = static_cast<std::int32_t>(rollout.prompt_ids_P.size()),
                                   .first_state = rollout.states(),
                                   .length = std::ssize(ids) - 1});
    rollout.prompt_ids_P.push_back({ids.front()});
    rollout.id_N.insert(rollout.id_N.end(), ids.begin() + 1, ids.end());
  }
  return rollout;
}

}  // namespace

std::vector<SequenceScores> score_sequences(Engine& engine, std::span<const GivenSequence> sequences,
                                            std::int32_t k) {
  const Rollout rollout = as_rollout(sequences);
  std::size_t widest = 0;
  for (const GivenSequence& sequence : sequences) {
    ROUTEOPD_INVARIANT(sequence.gather_R.empty() || sequence.gather_R.size() + 1 == sequence.ids_L.size());
    for (const auto& row : sequence.gather_R) widest = std::max(widest, row.size());
  }
  // The token taken is the first column; what else is wanted comes after it, padded.
  const std::size_t columns = widest + 1;
  std::vector<std::int32_t> wanted_NG(rollout.id_N.size() * columns, -1);
  std::size_t n = 0;
  for (const GivenSequence& sequence : sequences) {
    for (std::size_t t = 1; t < sequence.ids_L.size(); ++t, ++n) {
      wanted_NG[n * columns] = sequence.ids_L[t];
      if (sequence.gather_R.empty()) continue;
      const auto& row = sequence.gather_R[t - 1];
      std::copy(row.begin(), row.end(), wanted_NG.begin() + static_cast<std::ptrdiff_t>(n * columns + 1));
    }
  }
  const StateValues values = engine.score(
      rollout, {.k = k, .gather_ids_NG = wanted_NG, .gather_columns = static_cast<std::int64_t>(columns)});

  std::vector<SequenceScores> all;
  const auto top = static_cast<std::size_t>(values.columns);
  n = 0;
  for (const GivenSequence& sequence : sequences) {
    SequenceScores& scores = all.emplace_back();
    scores.columns = values.columns;
    for (std::size_t t = 1; t < sequence.ids_L.size(); ++t, ++n) {
      const float logsumexp = values.logsumexp_N[n];
      const Validity validity = values.validity_N[n];
      if (validity == Validity::kTruncatedScores || validity == Validity::kMisaligned)
        throw UserError(
            "score: the answer of engine {} to token {} of sequence {} is {}; expected its values",
            engine.name(), t, all.size(), name_of(validity));
      if (!std::isfinite(logsumexp))
        throw UserError(
            "score: the model gives NaN or infinite logits at token {} of sequence {}; are the weights "
            "whole?",
            t, all.size());
      const auto gathered = [&](std::size_t column) {
        return values.gathered_NG[n * columns + column] - logsumexp;
      };
      scores.logsumexp_R.push_back(logsumexp);
      scores.logprob_R.push_back(gathered(0));
      for (std::size_t i = n * top; i < (n + 1) * top; ++i) {
        scores.top_ids_RK.push_back(values.top_ids_NK[i]);
        scores.top_logprobs_RK.push_back(values.top_logits_NK[i] - logsumexp);
      }
      if (sequence.gather_R.empty()) continue;
      auto& row = scores.gathered_R.emplace_back();
      for (std::size_t i = 0; i < sequence.gather_R[t - 1].size(); ++i) row.push_back(gathered(i + 1));
    }
  }
  return all;
}

}  // namespace routeopd::engine
