// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/measure.h"

#include <algorithm>
#include <cmath>

#include "routeopd/probe/vocabulary_rows.h"

namespace routeopd::probe {

double log_odds_change(std::span<const double> after_R, std::span<const float> before_R, std::int32_t source,
                       std::int32_t destination) {
  const auto a = static_cast<std::size_t>(source), b = static_cast<std::size_t>(destination);
  return (after_R[b] - after_R[a]) - (static_cast<double>(before_R[b]) - static_cast<double>(before_R[a]));
}

void measure_row(std::size_t s, StateRows& rows, std::span<const float> before_R,
                 std::span<const double> after_R, const Frozen& frozen, double delta_diag, Changes& changes,
                 std::vector<double>& squares_S) {
  rows.set_after(before_R, after_R);
  const StateChange change = change_of(frozen.transport_S[s], rows, delta_diag);
  changes.fidelity_S[s] = change.fidelity;
  changes.leakage_S[s] = change.leakage;
  changes.mass_after_S[s] = change.mass_after;
  const auto own = static_cast<std::size_t>(changes.pairs);
  for (std::size_t i = s * own; i < (s + 1) * own; ++i) {
    if (changes.source_SM[i] >= 0)
      changes.achieved_SM[i] =
          log_odds_change(after_R, before_R, changes.source_SM[i], changes.destination_SM[i]);
  }
  const auto width = static_cast<std::size_t>(frozen.pairs);
  for (std::size_t i = s * width; i < (s + 1) * width; ++i) {
    if (frozen.source_SM[i] < 0) continue;
    const double moved = log_odds_change(after_R, before_R, frozen.source_SM[i], frozen.destination_SM[i]);
    squares_S[s] += moved * moved;
  }
}

double rms_over_pairs(const std::vector<double>& squares_S, const Frozen& frozen) {
  double squares = 0;
  for (const double part : squares_S) squares += part;
  const auto pairs =
      std::count_if(frozen.source_SM.begin(), frozen.source_SM.end(), [](auto id) { return id >= 0; });
  return pairs == 0 ? 0 : std::sqrt(squares / static_cast<double>(pairs));
}

double rescore_rows(const Bank& bank, const Frozen& frozen, const Endpoint& before, const Endpoint& after,
                    const at::Tensor& teacher_head_UX, Changes& changes, const AfterRow& seen) {
  changes.achieved_SM.assign(changes.target_SM.size(), 0.0);
  for (auto* values : {&changes.fidelity_S, &changes.leakage_S, &changes.mass_after_S})
    values->assign(bank.states(), 0.0);
  std::vector<double> squares_S(bank.states());
  walk_rows(before.hidden_SH, before.head_VH, bank.teacher_hidden_SX, teacher_head_UX, after.hidden_SH,
            after.head_VH, bank.real_ids,
            [&](std::size_t s, std::span<const float> before_R, std::span<const float> teacher_R,
                std::span<const float> after_R) {
              StateRows rows;
              rows.set_before(teacher_R, before_R);
              const std::vector<double> logits(after_R.begin(), after_R.end());
              measure_row(s, rows, before_R, logits, frozen, bank.objective.delta_diag, changes, squares_S);
              if (seen) seen(s, -1, logits);
            });
  return rms_over_pairs(squares_S, frozen);
}

void skip_unrouted(const Frozen& frozen, std::initializer_list<std::vector<double>*> measures_S) {
  for (std::size_t s = 0; s < frozen.transport_S.size(); ++s)
    for (std::vector<double>* const values_S : measures_S)
      if (!frozen.transport_S[s].routed) (*values_S)[s] = std::nan("");
}

Changes change_between(const Bank& bank, const Endpoint& before, const Endpoint& after,
                       const at::Tensor& teacher_head_UX) {
  const Frozen& frozen = bank.frozen;
  Changes changes;
  changes.pairs = frozen.pairs;
  changes.source_SM = frozen.source_SM;
  changes.destination_SM = frozen.destination_SM;
  changes.target_SM.assign(frozen.target_SM.begin(), frozen.target_SM.end());
  rescore_rows(bank, frozen, before, after, teacher_head_UX, changes, {});
  skip_unrouted(frozen, {&changes.fidelity_S, &changes.leakage_S});
  return changes;
}

}  // namespace routeopd::probe
