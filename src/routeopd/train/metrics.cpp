// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/metrics.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace routeopd::train {
namespace {

using Value = StepMetrics::Value;

constexpr const char* kNotRouted = "not_routed";
constexpr const char* kValidity = "validity/";
constexpr const char* kTeachers = "teachers/";

// Adds the sum and the count of values[n] over the states n with counts(n), for mean_of(). NaN values are
// skipped.
template <class Counts>
void add_mean(Totals& totals, const std::string& name, const std::vector<float>& values,
              const Counts& counts) {
  double sum = 0, count = 0;
  for (std::size_t n = 0; n < values.size(); ++n) {
    if (!counts(n) || std::isnan(values[n])) continue;
    sum += static_cast<double>(values[n]);
    ++count;
  }
  totals[name + "/sum"] += sum;
  totals[name + "/count"] += count;
}

double total(const Totals& totals, const std::string& name) {
  const auto found = totals.find(name);
  return found == totals.end() ? 0 : found->second;
}

std::int64_t count_of(const Totals& totals, const std::string& name) {
  return static_cast<std::int64_t>(total(totals, name));
}

Value share_of(double part, double whole) {
  return whole == 0 ? Value() : Value(part / whole);
}

// None where nothing was counted.
Value mean_of(const Totals& totals, const std::string& name) {
  return share_of(total(totals, name + "/sum"), total(totals, name + "/count"));
}

// Entropy, in nats, of the distribution over the top-k ids and the rest as one outcome: a lower bound of the
// full one, near it where the top-k holds the mass.
void add_top_entropy(Totals& totals, const std::string& name, const std::vector<float>& top_logits_NK,
                     const std::vector<float>& logsumexp_N, std::int32_t columns, const Routes& routes) {
  double sum = 0, count = 0;
  const auto k = static_cast<std::size_t>(columns);
  for (std::size_t n = 0; k > 0 && n < logsumexp_N.size(); ++n) {
    if (routes.validity_N[n] != Validity::kValid) continue;
    double entropy = 0, rest = 1;
    for (std::size_t i = 0; i < k; ++i) {
      const double log_p =
          static_cast<double>(top_logits_NK[n * k + i]) - static_cast<double>(logsumexp_N[n]);
      const double p = std::exp(log_p);
      if (p > 0) entropy -= p * log_p;
      rest -= p;
    }
    if (rest > 0) entropy -= rest * std::log(rest);
    sum += entropy;
    ++count;
  }
  totals[name + "/sum"] += sum;
  totals[name + "/count"] += count;
}

std::map<std::string, double> engine_gap(const objective::EngineGap& gap) {
  std::map<std::string, double> known;
  const auto rms = [](double squares, std::int64_t count) {
    return std::sqrt(squares / static_cast<double>(count));
  };
  if (gap.logprobs > 0) known["logprob"] = rms(gap.logprob_squares, gap.logprobs);
  if (gap.log_odds > 0) known["log_odds"] = rms(gap.log_odds_squares, gap.log_odds);
  if (gap.states > 0) known["share"] = static_cast<double>(gap.past) / static_cast<double>(gap.states);
  return known;
}

// What the teacher and the routes add to a step's sums.
void add_route_totals(const Rollout& rollout, const Scores& scores, const Routes& routes, Totals& totals) {
  const auto valid = [&](std::size_t n) { return routes.validity_N[n] == Validity::kValid; };
  const bool has_routes = !routes.routed_N.empty();  // else every mean below is over nothing
  const auto routed = [&](std::size_t n) { return routes.routed_N[n] != 0; };
  std::int64_t valid_states = 0, routed_states = 0;
  for (std::size_t n = 0; n < routes.validity_N.size(); ++n) {
    ++totals[kValidity + std::string(name_of(routes.validity_N[n]))];
    valid_states += valid(n) ? 1 : 0;
    routed_states += has_routes && routed(n) ? 1 : 0;
  }
  if (has_routes) {
    totals[std::string(kValidity) + kNotRouted] += static_cast<double>(valid_states - routed_states);
    totals["routed_share/sum"] += static_cast<double>(routed_states);
    totals["routed_share/count"] += static_cast<double>(valid_states);
  }
  add_mean(totals, "mass", routes.mass_N, valid);
  add_mean(totals, "concentration", routes.concentration_N, routed);
  add_mean(totals, "budget", routes.budget_N, routed);
  add_mean(totals, "saturated", routes.saturated_N, routed);
  // Without sampled pairs nothing is covered or missed.
  if (std::any_of(routes.source_NM.begin(), routes.source_NM.end(), [](auto id) { return id >= 0; }))
    add_mean(totals, "coverage", routes.coverage_N, routed);
  add_mean(totals, "student_mass", routes.student_mass_N, valid);
  add_mean(totals, "teacher_mass", routes.teacher_mass_N, valid);
  add_top_entropy(totals, "entropy", rollout.top_logits_NK, rollout.logsumexp_N, rollout.columns, routes);
  add_top_entropy(totals, "teacher_entropy", scores.teacher_logits_NJ, scores.teacher_logsumexp_N,
                  scores.columns, routes);
  totals["teacher_calls"] += static_cast<double>(rollout.responses_B.size());
  totals["teacher_tokens"] += static_cast<double>(scores.teacher_tokens);
}

// Of each of several teachers, under "teachers/NAME/".
void add_teacher_totals(const std::vector<std::string>& names, const Experience& experience, Totals& totals) {
  const Rollout& rollout = *experience.rollout;
  const Routes& routes = *experience.routes;
  const bool has_routes = !routes.routed_N.empty();
  for (std::size_t t = 0; t < names.size(); ++t) {
    const std::string of = kTeachers + names[t] + "/";
    std::vector<std::uint8_t> valid_N(routes.validity_N.size(), 0);  // its valid states
    for (const Response& response : rollout.responses_B) {
      const auto prompt = static_cast<std::size_t>(response.prompt);
      const std::int32_t reader = rollout.teacher_P.empty() ? 0 : rollout.teacher_P[prompt];
      if (reader != static_cast<std::int32_t>(t)) continue;
      ++totals[of + "calls"];
      totals[of + "states"] += static_cast<double>(response.length);
      for (std::int64_t j = 0; j < response.length; ++j) {
        const auto n = static_cast<std::size_t>(response.first_state + j);
        if (routes.validity_N[n] != Validity::kValid) continue;
        ++totals[of + "valid"];
        valid_N[n] = 1;
        if (!has_routes) continue;
        totals[of + "routed_share/sum"] += routes.routed_N[n] != 0 ? 1 : 0;
        ++totals[of + "routed_share/count"];
      }
    }
    if (!experience.scores->teacher_tokens_T.empty())
      totals[of + "tokens"] += static_cast<double>(experience.scores->teacher_tokens_T.at(t));
    add_mean(totals, of + "mass", routes.mass_N, [&](std::size_t n) { return valid_N[n] != 0; });
  }
}

}  // namespace

void StageClock::book(const std::string& stage) {
  const Clock::time_point now = Clock::now();
  seconds_[stage] += std::chrono::duration<double>(now - last_).count();
  last_ = now;
}

std::map<std::string, double> StageClock::take() {
  std::map<std::string, double> all = std::exchange(seconds_, {});
  double total = 0;
  for (const auto& [stage, seconds] : all) total += seconds;
  all["total"] = total;
  return all;
}

Totals step_totals(const Experience& experience, const std::vector<std::string>& teachers) {
  const Rollout& rollout = *experience.rollout;
  Totals totals;
  totals["tokens"] = static_cast<double>(rollout.states());
  totals["responses"] = static_cast<double>(rollout.responses_B.size());
  totals["clipped"] = static_cast<double>(
      std::count_if(rollout.responses_B.begin(), rollout.responses_B.end(),
                    [](const Response& response) { return response.finish == Finish::kLength; }));
  add_mean(totals, "policy_entropy", rollout.entropy_N, [](std::size_t) { return true; });
  if (experience.routes == nullptr) {
    totals[kValidity + std::string(name_of(Validity::kValid))] = static_cast<double>(rollout.states());
    return totals;
  }
  add_route_totals(rollout, *experience.scores, *experience.routes, totals);
  if (teachers.size() > 1) add_teacher_totals(teachers, experience, totals);
  return totals;
}

StepMetrics step_metrics(std::int64_t step, const Totals& totals, const std::vector<std::string>& teachers,
                         const UpdateResult& update) {
  const double responses = std::max(1.0, total(totals, "responses"));
  StepMetrics metrics;
  metrics.step = step;
  metrics.tokens = count_of(totals, "tokens");
  if (update.states > 0) metrics.loss = update.loss;
  metrics.lr = update.lr;
  if (update.updates > 0) metrics.grad_norm = update.grad_norm;
  metrics.skipped_updates = update.skipped.total();
  metrics.floored = update.floored;
  metrics.response_tokens = total(totals, "tokens") / responses;
  metrics.clip_ratio = total(totals, "clipped") / responses;
  metrics.policy_entropy = mean_of(totals, "policy_entropy");
  for (const auto& [name, count] : totals)
    if (name.starts_with(kValidity))
      metrics.validity[name.substr(std::string_view(kValidity).size())] = static_cast<std::int64_t>(count);
  if (!totals.contains("teacher_calls")) return metrics;  // no teacher
  metrics.capture_error = update.capture_error;
  metrics.engine_gap = engine_gap(update.gap);
  metrics.mass = mean_of(totals, "mass");
  metrics.concentration = mean_of(totals, "concentration");
  metrics.budget = mean_of(totals, "budget");
  metrics.saturated = mean_of(totals, "saturated");
  metrics.coverage = mean_of(totals, "coverage");
  metrics.routed_share = mean_of(totals, "routed_share");
  metrics.student_mass = mean_of(totals, "student_mass");
  metrics.teacher_mass = mean_of(totals, "teacher_mass");
  metrics.entropy = mean_of(totals, "entropy");
  metrics.teacher_entropy = mean_of(totals, "teacher_entropy");
  metrics.teacher_calls = count_of(totals, "teacher_calls");
  metrics.teacher_tokens = count_of(totals, "teacher_tokens");
  if (teachers.size() < 2) return metrics;
  for (const std::string& name : teachers) {
    const std::string of = kTeachers + name + "/";
    metrics.teachers[name] = {.states = count_of(totals, of + "states"),
                              .valid = count_of(totals, of + "valid"),
                              .mass = mean_of(totals, of + "mass"),
                              .routed_share = mean_of(totals, of + "routed_share"),
                              .calls = count_of(totals, of + "calls"),
                              .tokens = count_of(totals, of + "tokens")};
  }
  return metrics;
}

std::map<std::string, double> exchange_metrics(const Exchanged& exchanged, int ranks) {
  return {{"ranks", ranks},
          {"bytes", static_cast<double>(exchanged.bytes)},
          {"dense_bytes", static_cast<double>(exchanged.dense_bytes)},
          {"seconds", exchanged.seconds}};
}

std::string skipped_text(const StepMetrics& metrics, const UpdateResult& update) {
  std::string text;
  const auto add = [&](std::int64_t count, const std::string& what) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  };
  for (const auto& [reason, count] : metrics.validity)
    if (reason != name_of(Validity::kValid) && reason != kNotRouted)
      add(count, fmt::format("states skipped ({})", reason));
  add(update.skipped.no_valid_state, "updates skipped (no valid state)");
  add(update.skipped.loss, "updates skipped (the loss is not finite)");
  add(update.skipped.gradient, "updates skipped (the gradient is not finite)");
  return text;
}

}  // namespace routeopd::train
