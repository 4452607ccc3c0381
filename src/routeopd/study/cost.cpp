// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "routeopd/base/interrupt.h"
#include "routeopd/base/system.h"
#include "routeopd/study/route_cost.h"
#include "routeopd/study/study_pace.h"
#include "routeopd/train/metrics.h"
#include "routeopd/train/stages.h"

namespace routeopd::study {
namespace {

// As the study calls the runs of these settings, where it has some: their accuracy and their cost are drawn
// as one point.
std::string name_of_shape(std::int32_t k, std::int32_t m, const StudyOptions& options) {
  if (m == options.m) return fmt::format("routeopd-k{}", k);
  if (k == options.k) return fmt::format("routeopd-m{}", m);
  return fmt::format("routeopd-k{}-m{}", k, m);
}

// t at 0.975 for 1 to 30 degrees of freedom; beyond, the normal distribution's.
constexpr std::array<double, 30> kStudent = {
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120,  2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
constexpr double kNormal = 1.96;

Json json_of(const RatioInterval& interval) {
  const auto or_null = [](const std::optional<double>& end) { return end ? Json(*end) : Json(); };
  return {{"mean", interval.mean}, {"low", or_null(interval.low)}, {"high", or_null(interval.high)}};
}

// What one arm gave, one value for each round.
struct Measured {
  std::map<std::string, std::vector<double>> seconds;  // by stage
  std::vector<double> peak_bytes;
  std::int64_t tokens = 0, responses = 0;

  Json json(const Variant& variant, const StudyOptions& options, const Measured& reference) const {
    const routing::ObjectiveOptions objective = objective_of(variant, options);
    Json medians = Json::object();
    for (const auto& [stage, values] : seconds) medians[stage] = median_of(values);
    const auto relative = [&](const char* stage) {
      std::vector<double> ratios;
      for (std::size_t r = 0; r < seconds.at(stage).size(); ++r)
        ratios.push_back(seconds.at(stage)[r] / reference.seconds.at(stage)[r]);
      return json_of(interval_over_rounds(ratios));
    };
    return {{"name", variant.name},
            {"k", variant.name == kLeanReference ? Json() : support_json(objective.k)},
            {"m", variant.name == kLeanReference ? Json() : Json(objective.m)},
            {"seconds", medians},
            {"tokens_per_second", static_cast<double>(tokens) / median_of(seconds.at("total"))},
            {"peak_bytes", static_cast<std::int64_t>(median_of(peak_bytes))},
            {"teacher_calls", responses},
            {"relative_total", relative("total")},
            {"relative_learner", relative("learner")}};
  }
};

train::Recipe cost_recipe(const LoadedPair& pair, const Variant& variant, const StudyOptions& options) {
  train::Recipe recipe = pair.recipe();
  recipe.seed = options.main_seeds.front();
  recipe.objective = objective_of(variant, options);
  recipe.train.diagnostics = variant.name != kLeanReference;
  recipe.optimizer.lr = 1e-12;  // the student stays what it is, so that all rounds do the same work
  recipe.optimizer.weight_decay = 0;
  return recipe;
}

// One step that does not count and one that does. Everything the arm holds is made anew: its peak is its own.
void measure(const LoadedPair& pair, const Variant& variant, const StudyOptions& options,
             const std::vector<Prompt>& prompts, Measured& measured) {
  const train::Recipe recipe = cost_recipe(pair, variant, options);
  reset_peak_resident();
  train::Inputs inputs = pair.inputs();
  train::Stages stages(recipe, inputs);
  for (const bool counts : {false, true}) {
    train::StageClock clock;
    clock.start();
    Rollout rollout = stages.write(prompts, 0);
    clock.book("rollout");
    const Scores scores = stages.score(rollout);
    clock.book("score");
    const Routes routes = stages.route(rollout, scores);
    clock.book("route");
    stages.learn(stages.experience(rollout, scores, routes));
    clock.book("learn");
    check_interrupt();
    if (!counts) continue;
    std::map<std::string, double> seconds = clock.take();
    seconds["learner"] = seconds.at("route") + seconds.at("learn");
    for (const auto& [stage, taken] : seconds) measured.seconds[stage].push_back(taken);
    measured.tokens = rollout.states();
    measured.responses = std::ssize(rollout.responses_B);
  }
  measured.peak_bytes.push_back(static_cast<double>(peak_resident_bytes()));
}

}  // namespace

std::vector<Variant> cost_variants(const StudyOptions& options) {
  std::vector<Variant> chosen = {{kLeanReference, Family::kMain, {{"arm", kMainReference}}}};
  for (const Variant& variant : all_variants(options)) {
    if (variant.family == Family::kMain && (variant.name == kMainReference || keeps(options, variant.name)))
      chosen.push_back(variant);
  }
  const auto add = [&](const Variant& variant) {
    if (keeps(options, "routeopd") || keeps(options, variant.name)) chosen.push_back(variant);
  };
  for (const auto& [k, m] : kRouteShapes) {
    if (k != options.k || m != options.m)
      add({name_of_shape(k, m, options), Family::kSupport, {{"arm", "routeopd"}, {"k", k}, {"m", m}}});
  }
  add({"routeopd-kfull", Family::kSupport, {{"arm", "routeopd"}, {"k", "full"}}});
  return chosen;
}

RatioInterval interval_over_rounds(std::span<const double> ratios) {
  const auto count = static_cast<double>(ratios.size());
  double mean = 0, squares = 0;
  for (const double ratio : ratios) mean += std::log(ratio) / count;
  for (const double ratio : ratios) squares += std::pow(std::log(ratio) - mean, 2);
  RatioInterval interval{.mean = std::exp(mean), .low = {}, .high = {}};
  if (ratios.size() < 2) return interval;
  const std::size_t degrees = ratios.size() - 1;
  const double t = degrees <= kStudent.size() ? kStudent[degrees - 1] : kNormal;
  const double half = t * std::sqrt(squares / static_cast<double>(degrees) / count);
  interval.low = std::exp(mean - half);
  interval.high = std::exp(mean + half);
  return interval;
}

std::int64_t cost_steps(const StudyOptions& options) {
  return 2 * options.rounds * std::ssize(cost_variants(options)) + std::ssize(kRouteShapes);
}

Json measure_cost(const LoadedPair& pair, const StudyOptions& options,
                  const std::function<void(std::int64_t, std::int64_t, double)>& watch) {
  std::vector<Prompt> prompts(pair.prompts().begin(), pair.prompts().begin() + options.prompts_per_step);
  for (std::size_t i = 0; i < prompts.size(); ++i) prompts[i].number = static_cast<std::uint32_t>(i);
  const std::vector<Variant> variants = cost_variants(options);
  std::vector<Measured> measured(variants.size());
  std::int64_t done = 0;
  Clock::time_point last = Clock::now();
  const auto tell = [&](std::int64_t steps) {
    done += steps;
    if (watch) watch(done, cost_steps(options), seconds_since(last));
    last = Clock::now();
  };
  for (std::int32_t round = 0; round < options.rounds; ++round) {
    for (std::size_t v = 0; v < variants.size(); ++v) {
      measure(pair, variants[v], options, prompts, measured[v]);
      tell(2);
    }
  }
  Json arms = Json::array();
  for (std::size_t v = 0; v < variants.size(); ++v)
    arms.push_back(measured[v].json(variants[v], options, measured.front()));
  const Json routes = route_costs(pair, options, prompts, [&] { tell(1); });
  return {{"rounds", options.rounds}, {"reference", kLeanReference}, {"arms", arms}, {"routes", routes}};
}

}  // namespace routeopd::study
