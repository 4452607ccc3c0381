// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace routeopd::probe {
namespace {

using States = std::vector<std::size_t>;

Json or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

template <class Value>
Json mean_over(const States& states, const Value& value) {
  double sum = 0, count = 0;
  for (const std::size_t s : states) {
    const double v = value(s);
    if (std::isnan(v)) continue;
    sum += v;
    ++count;
  }
  return count == 0 ? Json() : Json(sum / count);
}

// What every stratum says.
Json stratum(const States& states, const ProbeRow& row, const Bank& bank, const Frozen& frozen) {
  const Changes& changes = row.changes;
  const Realization realized = realization(changes, bank.objective.delta_target, states);
  return {{"states", states.size()},
          {"fidelity", mean_over(states, [&](std::size_t s) { return changes.fidelity_S[s]; })},
          {"leakage", mean_over(states, [&](std::size_t s) { return changes.leakage_S[s]; })},
          {"deficit_reduction",
           mean_over(states,
                     [&](std::size_t s) { return frozen.transport_S[s].mass - changes.mass_after_S[s]; })},
          {"completion", realized.pairs == 0 ? Json() : Json(realized.completion)}};
}

Json concentration_strata(const ProbeRow& row, const Bank& bank, const Frozen& frozen) {
  Json strata = Json::array();
  for (int bin = 0; bin < 4; ++bin) {
    const double low = 0.25 * bin, high = low + 0.25;
    States states;
    for (std::size_t s = 0; s < bank.states(); ++s) {
      const auto& state = frozen.transport_S[s];
      if (state.routed && state.concentration >= low && (state.concentration < high || bin == 3))
        states.push_back(s);
    }
    Json part = stratum(states, row, bank, frozen);
    part["low"] = low;
    part["high"] = high;
    const std::vector<double>& budget_S = row.changes.budget_S;
    part["budget"] =
        budget_S.empty() ? Json() : mean_over(states, [&](std::size_t s) { return budget_S[s]; });
    strata.push_back(part);
  }
  return strata;
}

// Routed states in four parts of equal size by a value, ascending; ties by their order in the bank.
template <class Value>
Json quartiles(const ProbeRow& row, const Bank& bank, const Frozen& frozen, const char* name,
               const Value& value) {
  States order;
  for (std::size_t s = 0; s < bank.states(); ++s)
    if (frozen.transport_S[s].routed) order.push_back(s);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return value(a) < value(b); });
  Json strata = Json::array();
  for (std::size_t quartile = 0; quartile < 4; ++quartile) {
    const States states(order.begin() + static_cast<std::ptrdiff_t>(order.size() * quartile / 4),
                        order.begin() + static_cast<std::ptrdiff_t>(order.size() * (quartile + 1) / 4));
    Json part = stratum(states, row, bank, frozen);
    part["quartile"] = quartile + 1;
    part[name] = mean_over(states, value);
    strata.push_back(part);
  }
  return strata;
}

double sign(double x) {
  return x > 0 ? 1 : x < 0 ? -1 : 0;
}

}  // namespace

Json spread_of(const std::vector<double>& values_S, const Bank& bank) {
  std::vector<double> sorted;
  for (const double value : values_S)
    if (!std::isnan(value)) sorted.push_back(value);
  std::sort(sorted.begin(), sorted.end());
  const grade::Interval mean = grade::clustered_mean(values_S, bank.sequence_S, {});
  const auto at = [&](double share) {
    return sorted.empty() ? Json() : Json(grade::quantile(sorted, share));
  };
  return {{"mean", or_null(mean.mean)}, {"low", or_null(mean.low)},
          {"high", or_null(mean.high)}, {"p10", at(0.1)},
          {"median", at(0.5)},          {"states", sorted.size()}};
}

RealizedShares realized_shares(const Changes& changes, const Bank& bank) {
  const auto width = static_cast<std::size_t>(changes.pairs);
  const double delta = bank.objective.delta_target, none = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> completion, overshoot;
  std::vector<std::int32_t> sequence;
  for (std::size_t i = 0; i < changes.source_SM.size(); ++i) {
    const double target = changes.target_SM[i], achieved = changes.achieved_SM[i];
    const bool judged = changes.source_SM[i] >= 0 && target >= delta;
    completion.push_back(judged ? std::clamp(achieved / target, 0.0, 1.0) : none);
    overshoot.push_back(judged ? (achieved > target + delta ? 1.0 : 0.0) : none);
    sequence.push_back(bank.sequence_S[i / width]);
  }
  return {.completion = grade::clustered_mean(completion, sequence, {}),
          .overshoot = grade::clustered_mean(overshoot, sequence, {})};
}

Json summary_of(const ProbeRow& row, const Bank& bank, const Frozen& frozen) {
  const Changes& changes = row.changes;
  const Realization realized = realization(changes, bank.objective.delta_target);
  const bool judged = realized.pairs > 0;
  const RealizedShares shares = realized_shares(changes, bank);
  const auto interval = [](const grade::Interval& of) {
    return Json::array({or_null(of.low), or_null(of.high)});
  };
  States all(bank.states());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return {{"name", row.name},
          {"intervention", std::string(name_of(row.intervention))},
          {"scale", row.scale},
          {"rms", row.rms},
          {"fidelity", spread_of(changes.fidelity_S, bank)},
          {"leakage", spread_of(changes.leakage_S, bank)},
          {"pairs", realized.pairs},
          {"target_mae", judged ? Json(realized.mae) : Json()},
          {"completion", judged ? Json(realized.completion) : Json()},
          {"completion_interval", interval(shares.completion)},
          {"overshoot", judged ? Json(realized.overshoot) : Json()},
          {"overshoot_interval", interval(shares.overshoot)},
          {"deficit_reduction", stratum(all, row, bank, frozen)["deficit_reduction"]},
          {"strata",
           {{"concentration", concentration_strata(row, bank, frozen)},
            {"mismatch",
             quartiles(row, bank, frozen, "mass", [&](std::size_t s) { return frozen.transport_S[s].mass; })},
            {"entropy", quartiles(row, bank, frozen, "entropy",
                                  [&](std::size_t s) { return frozen.teacher_entropy_S[s]; })}}}};
}

Json bank_statistics(const Bank& bank, const Frozen& frozen) {
  States all(bank.states()), routed;
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (const std::size_t s : all)
    if (frozen.transport_S[s].routed) routed.push_back(s);
  std::vector<double> student_mass(all.size()), teacher_mass(all.size());
  double agree = 0, ids = 0;
  std::size_t at = 0;
  for (const std::size_t s : all) {
    const auto& state = frozen.transport_S[s];
    for (std::size_t i = 0; i < state.ids.size(); ++i, ++at) {
      const double student = std::exp(state.student_logits[i] - frozen.student_logsumexp_S[s]);
      const double teacher =
          std::exp(static_cast<double>(frozen.teacher_logits_L[at]) - frozen.teacher_logsumexp_S[s]);
      student_mass[s] += student;
      teacher_mass[s] += teacher;
      agree += sign(state.p_teacher[i] - state.p_student[i]) == sign(teacher - student) ? 1 : 0;
      ++ids;
    }
  }
  return {{"states", all.size()},
          {"sequences", bank.rollout.responses_B.size()},
          {"mass", mean_over(all, [&](std::size_t s) { return frozen.transport_S[s].mass; })},
          {"concentration",
           mean_over(routed, [&](std::size_t s) { return frozen.transport_S[s].concentration; })},
          {"budget", mean_over(routed, [&](std::size_t s) { return frozen.transport_S[s].budget; })},
          {"routed_share", static_cast<double>(routed.size()) / static_cast<double>(all.size())},
          {"student_mass", mean_over(all, [&](std::size_t s) { return student_mass[s]; })},
          {"teacher_mass", mean_over(all, [&](std::size_t s) { return teacher_mass[s]; })},
          {"sign_agreement", agree / ids},
          {"student_entropy", mean_over(all, [&](std::size_t s) { return frozen.student_entropy_S[s]; })},
          {"teacher_entropy", mean_over(all, [&](std::size_t s) { return frozen.teacher_entropy_S[s]; })}};
}

Json json_of(const ProbeArm& arm, const ArmStatistics& statistics) {
  const auto known = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  const routing::ObjectiveOptions& objective = arm.objective;
  Json row = {{"name", arm.name},
              {"arm", objective.arm},
              {"m", objective.m},
              {"pairs", objective.pairs == routing::Pairs::kExact ? "exact" : "sample"},
              {"budget", known(statistics.budget)},
              {"student_mass", known(statistics.student_mass)},
              {"teacher_mass", known(statistics.teacher_mass)},
              {"coverage", known(statistics.coverage)},
              {"loss_variance", known(statistics.loss_variance)},
              {"relative_loss_variance", known(statistics.relative_loss_variance)},
              {"cycle_violations", known(statistics.cycle_violations)}};
  row["k"] = objective.k == routing::kFullSupport ? Json("full") : Json(objective.k);
  return row;
}

}  // namespace routeopd::probe
