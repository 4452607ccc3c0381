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

// Mean of values[n] over the states n with counts(n); none where there are none. NaN values are skipped.
template <class Counts>
Value mean_over(const std::vector<float>& values, const Counts& counts) {
  double sum = 0, count = 0;
  for (std::size_t n = 0; n < values.size(); ++n) {
    if (!counts(n) || std::isnan(values[n])) continue;
    sum += static_cast<double>(values[n]);
    ++count;
  }
  return count == 0 ? Value() : Value(sum / count);
}

// Mean entropy, in nats, of the distribution over the top-k ids and the rest as one outcome: a lower bound of
// the full one, near it where the top-k holds the mass.
Value top_entropy(const std::vector<float>& top_logits_NK, const std::vector<float>& logsumexp_N,
                  std::int32_t columns, const Routes& routes) {
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
  return count == 0 ? Value() : Value(sum / count);
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

// What the teacher and the routes add to a step's metrics.
void add_route_metrics(const Rollout& rollout, const Scores& scores, const Routes& routes,
                       StepMetrics& metrics) {
  const auto valid = [&](std::size_t n) { return routes.validity_N[n] == Validity::kValid; };
  const bool has_routes = !routes.routed_N.empty();  // else every mean below is over nothing: none
  const auto routed = [&](std::size_t n) { return routes.routed_N[n] != 0; };
  std::int64_t valid_states = 0, routed_states = 0;
  for (std::size_t n = 0; n < routes.validity_N.size(); ++n) {
    ++metrics.validity[std::string(name_of(routes.validity_N[n]))];
    valid_states += valid(n) ? 1 : 0;
    routed_states += has_routes && routed(n) ? 1 : 0;
  }
  if (has_routes) metrics.validity[kNotRouted] = valid_states - routed_states;
  if (has_routes && valid_states > 0)
    metrics.routed_share = static_cast<double>(routed_states) / static_cast<double>(valid_states);
  metrics.mass = mean_over(routes.mass_N, valid);
  metrics.concentration = mean_over(routes.concentration_N, routed);
  metrics.budget = mean_over(routes.budget_N, routed);
  metrics.saturated = mean_over(routes.saturated_N, routed);
  // Without sampled pairs nothing is covered or missed.
  if (std::any_of(routes.source_NM.begin(), routes.source_NM.end(), [](auto id) { return id >= 0; }))
    metrics.coverage = mean_over(routes.coverage_N, routed);
  metrics.student_mass = mean_over(routes.student_mass_N, valid);
  metrics.teacher_mass = mean_over(routes.teacher_mass_N, valid);
  metrics.entropy = top_entropy(rollout.top_logits_NK, rollout.logsumexp_N, rollout.columns, routes);
  metrics.teacher_entropy =
      top_entropy(scores.teacher_logits_NJ, scores.teacher_logsumexp_N, scores.columns, routes);
  metrics.teacher_calls = std::ssize(rollout.responses_B);
  metrics.teacher_tokens = scores.teacher_tokens;
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

StepMetrics step_metrics(std::int64_t step, const Experience& experience, const UpdateResult& update) {
  const Rollout& rollout = *experience.rollout;
  const auto responses = static_cast<double>(std::max<std::size_t>(1, rollout.responses_B.size()));
  const auto clipped =
      std::count_if(rollout.responses_B.begin(), rollout.responses_B.end(),
                    [](const Response& response) { return response.finish == Finish::kLength; });
  StepMetrics metrics;
  metrics.step = step;
  metrics.tokens = rollout.states();
  if (update.states > 0) metrics.loss = update.loss;
  metrics.lr = update.lr;
  if (update.updates > 0) metrics.grad_norm = update.grad_norm;
  metrics.skipped_updates = update.skipped.total();
  metrics.floored = update.floored;
  metrics.response_tokens = static_cast<double>(rollout.states()) / responses;
  metrics.clip_ratio = static_cast<double>(clipped) / responses;
  metrics.policy_entropy = mean_over(rollout.entropy_N, [](std::size_t) { return true; });
  if (experience.routes == nullptr) {
    metrics.validity[std::string(name_of(Validity::kValid))] = rollout.states();
    return metrics;
  }
  metrics.capture_error = update.capture_error;
  metrics.engine_gap = engine_gap(update.gap);
  add_route_metrics(rollout, *experience.scores, *experience.routes, metrics);
  return metrics;
}

std::map<std::string, TeacherMetrics> teacher_metrics(const std::vector<std::string>& names,
                                                      const Experience& experience) {
  std::map<std::string, TeacherMetrics> all;
  if (names.size() < 2 || experience.routes == nullptr) return all;
  const Rollout& rollout = *experience.rollout;
  const Routes& routes = *experience.routes;
  const bool has_routes = !routes.routed_N.empty();
  for (std::size_t t = 0; t < names.size(); ++t) {
    TeacherMetrics& teacher = all[names[t]];
    std::vector<std::uint8_t> valid_N(routes.validity_N.size(), 0);  // its valid states
    std::int64_t routed = 0;
    for (const Response& response : rollout.responses_B) {
      const auto prompt = static_cast<std::size_t>(response.prompt);
      const std::int32_t reader = rollout.teacher_P.empty() ? 0 : rollout.teacher_P[prompt];
      if (reader != static_cast<std::int32_t>(t)) continue;
      ++teacher.calls;
      teacher.states += response.length;
      for (std::int64_t j = 0; j < response.length; ++j) {
        const auto n = static_cast<std::size_t>(response.first_state + j);
        if (routes.validity_N[n] != Validity::kValid) continue;
        ++teacher.valid;
        valid_N[n] = 1;
        routed += has_routes && routes.routed_N[n] != 0 ? 1 : 0;
      }
    }
    teacher.tokens = experience.scores->teacher_tokens_T.at(t);
    teacher.mass = mean_over(routes.mass_N, [&](std::size_t n) { return valid_N[n] != 0; });
    if (has_routes && teacher.valid > 0)
      teacher.routed_share = static_cast<double>(routed) / static_cast<double>(teacher.valid);
  }
  return all;
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
