//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace routeopd::train {
namespace {

// Null where there is no teacher, or no state to say it of.
constexpr std::array kOfTheTeacher = {"mass",         "concentration",   "budget",       "saturated",
                                      "routed_share", "student_mass",    "teacher_mass", "coverage",
                                      "entropy",      "teacher_entropy", "capture_error"};

// Mean of values[n] over the states that `counts` says, null where there are none; NaN values are left out.
template <class Counts>
Json mean_over(const std::vector<float>& values, const Counts& counts) {
  double sum = 0, count = 0;
  for (std::size_t n = 0; n < values.size(); ++n) {
    if (!counts(n) || std::isnan(values[n])) continue;
    sum += static_cast<double>(values[n]);
    ++count;
  }
  return count == 0 ? Json() : Json(sum / count);
}

// Mean entropy, in nats, of the distribution over the top-k ids and the rest as one outcome: a lower bound of the full
// one, near it where the top-k holds the mass.
Json top_entropy(const std::vector<float>& top_logits_NK, const std::vector<float>& logsumexp_N,
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
  return count == 0 ? Json() : Json(sum / count);
}

}  // namespace

void StageClock::book(const std::string& stage) {
  const Clock::time_point now = Clock::now();
  seconds_[stage] = seconds_.value(stage, 0.0) + std::chrono::duration<double>(now - last_).count();
  last_ = now;
}

Json StageClock::take() {
  Json all = std::exchange(seconds_, Json::object());
  double total = 0;
  for (const auto& [stage, seconds] : all.items()) total += seconds.get<double>();
  all["total"] = total;
  return all;
}

std::string left_out(const Json& metrics, const UpdateResult& update) {
  std::string text;
  const auto add = [&](std::int64_t count, const std::string& what) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  };
  const Json validity = metrics.value("validity", Json::object());
  for (const auto& [reason, count] : validity.items())
    if (reason != name_of(Validity::kValid) && reason != "not_routed")
      add(count.get<std::int64_t>(), fmt::format("states left out ({})", reason));
  add(update.skipped.no_valid_state, "updates left out (no valid state)");
  add(update.skipped.loss, "updates left out (the loss is not finite)");
  add(update.skipped.gradient, "updates left out (the gradient is not finite)");
  return text;
}

Json step_metrics(std::int64_t step, const Experience& experience, const UpdateResult& update) {
  const Rollout& rollout = *experience.rollout;
  double clipped = 0;
  for (const Response& response : rollout.responses_B) clipped += response.finish == Finish::kLength ? 1 : 0;
  const auto responses = static_cast<double>(std::max<std::size_t>(1, rollout.responses_B.size()));
  Json metrics = {{"step", step},
                  {"tokens", rollout.states()},
                  {"loss", update.states > 0 ? Json(update.loss) : Json()},
                  {"lr", update.lr},
                  {"grad_norm", update.updates > 0 ? Json(update.grad_norm) : Json()},
                  {"response_tokens", static_cast<double>(rollout.states()) / responses},
                  {"clip_ratio", clipped / responses},
                  {"skipped_updates", update.skipped.total()},
                  {"floored", update.floored},
                  {"teacher_calls", 0},
                  {"teacher_tokens", 0},
                  {"validity", Json::object()}};
  for (const char* name : kOfTheTeacher) metrics[name] = Json();
  if (experience.routes == nullptr) {
    metrics["validity"][std::string(name_of(Validity::kValid))] = rollout.states();
    return metrics;
  }

  const Routes& routes = *experience.routes;
  const Scores& scores = *experience.scores;
  const auto valid = [&](std::size_t n) { return routes.validity_N[n] == Validity::kValid; };
  const auto routed = [&](std::size_t n) { return routes.routed_N[n] != 0; };
  Json validity = Json::object();
  double valid_states = 0, routed_states = 0;
  for (std::size_t n = 0; n < routes.validity_N.size(); ++n) {
    const std::string reason(name_of(routes.validity_N[n]));
    validity[reason] = validity.value(reason, 0) + 1;
    valid_states += valid(n) ? 1 : 0;
    routed_states += routed(n) ? 1 : 0;
  }
  validity["not_routed"] = static_cast<std::int64_t>(valid_states - routed_states);
  metrics["validity"] = validity;
  metrics["routed_share"] = valid_states == 0 ? Json() : Json(routed_states / valid_states);
  metrics["mass"] = mean_over(routes.mass_N, valid);
  metrics["concentration"] = mean_over(routes.concentration_N, routed);
  metrics["budget"] = mean_over(routes.budget_N, routed);
  metrics["saturated"] = mean_over(routes.saturated_N, routed);
  // Without sampled pairs nothing is covered or missed.
  const bool has_pairs =
      std::any_of(routes.source_NM.begin(), routes.source_NM.end(), [](auto id) { return id >= 0; });
  metrics["coverage"] = has_pairs ? mean_over(routes.coverage_N, routed) : Json();
  metrics["student_mass"] = mean_over(routes.student_mass_N, valid);
  metrics["teacher_mass"] = mean_over(routes.teacher_mass_N, valid);
  metrics["entropy"] = top_entropy(rollout.top_logits_NK, rollout.logsumexp_N, rollout.columns, routes);
  metrics["teacher_entropy"] =
      top_entropy(scores.teacher_logits_NJ, scores.teacher_logsumexp_N, scores.columns, routes);
  metrics["capture_error"] = update.capture_error ? Json(*update.capture_error) : Json();
  metrics["teacher_calls"] = rollout.responses_B.size();
  metrics["teacher_tokens"] = scores.teacher_tokens;
  return metrics;
}

}  // namespace routeopd::train
