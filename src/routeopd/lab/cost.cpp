//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/cost.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "routeopd/base/interrupt.h"
#include "routeopd/base/memory.h"
#include "routeopd/base/philox.h"
#include "routeopd/lab/route_cost.h"
#include "routeopd/lab/variants.h"
#include "routeopd/train/metrics.h"
#include "routeopd/train/stages.h"

namespace routeopd::lab {
namespace {

constexpr const char* kReference = "sampled_rkl";

// The main arms, routeopd at the paper's k and m, and the whole vocabulary.
std::vector<Variant> cost_variants(const StudyOptions& options) {
  std::vector<Variant> chosen;
  for (Variant& variant : all_variants(options)) {
    if (variant.family == Family::kMain) chosen.push_back(std::move(variant));
  }
  for (const auto& [k, m] : kRouteShapes) {
    if (k != options.k || m != options.m)
      chosen.push_back({fmt::format("routeopd-k{}-m{}", k, m),
                        Family::kSupport,
                        {{"arm", "routeopd"}, {"k", k}, {"m", m}}});
  }
  chosen.push_back({"routeopd-kfull", Family::kSupport, {{"arm", "routeopd"}, {"k", "full"}}});
  return chosen;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return grade::quantile(values, 0.5);
}

Json json_of(const grade::Interval& interval) {
  return {{"mean", interval.mean}, {"low", interval.low}, {"high", interval.high}};
}

// What one arm gave, a value a round.
struct Measured {
  std::map<std::string, std::vector<double>> seconds;  // by stage
  std::vector<double> peak_bytes;
  std::int64_t tokens = 0, responses = 0;

  Json json(const Variant& variant, const StudyOptions& options, const Measured& reference) const {
    const routing::ObjectiveOptions objective = objective_of(variant, options);
    Json medians = Json::object();
    for (const auto& [stage, values] : seconds) medians[stage] = median(values);
    const auto relative = [&](const char* stage) {
      std::vector<double> ratios;
      for (std::size_t r = 0; r < seconds.at(stage).size(); ++r)
        ratios.push_back(seconds.at(stage)[r] / reference.seconds.at(stage)[r]);
      return json_of(interval_over_rounds(ratios));
    };
    return {{"name", variant.name},
            {"k", objective.k == routing::kFullSupport ? Json("full") : Json(objective.k)},
            {"m", objective.m},
            {"seconds", medians},
            {"tokens_per_second", static_cast<double>(tokens) / median(seconds.at("total"))},
            {"peak_bytes", static_cast<std::int64_t>(median(peak_bytes))},
            {"teacher_calls", responses},
            {"relative_total", relative("total")},
            {"relative_learn", relative("learn")}};
  }
};

train::Recipe cost_recipe(const LoadedPair& pair, const Variant& variant, const StudyOptions& options) {
  train::Recipe recipe = pair.recipe();
  recipe.seed = options.main_seeds.front();
  recipe.objective = objective_of(variant, options);
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
    const Json seconds = clock.take();
    for (const auto& item : seconds.items())
      measured.seconds[item.key()].push_back(item.value().get<double>());
    measured.tokens = rollout.states();
    measured.responses = std::ssize(rollout.responses_B);
  }
  measured.peak_bytes.push_back(static_cast<double>(peak_resident_bytes()));
}

}  // namespace

grade::Interval interval_over_rounds(std::span<const double> values) {
  constexpr std::uint32_t kDraws = 10000;
  constexpr std::uint64_t kSeed = 42;
  const auto count = static_cast<double>(values.size());
  const auto mean = [&](double sum) { return sum / count; };
  std::vector<double> means;
  for (std::uint32_t draw = 0; draw < kDraws; ++draw) {
    double sum = 0;
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      const StateAddress at{.prompt = draw, .position = i};
      const auto u = static_cast<double>(unit_uniform(addressed_words(kSeed, Purpose::kBootstrap, at, 0)[0]));
      sum += values[static_cast<std::size_t>(u * count)];
    }
    means.push_back(mean(sum));
  }
  std::sort(means.begin(), means.end());
  return {mean(std::accumulate(values.begin(), values.end(), 0.0)), grade::quantile(means, 0.025),
          grade::quantile(means, 0.975)};
}

std::int64_t cost_steps(const StudyOptions& options) {
  return 2 * options.rounds * std::ssize(cost_variants(options));
}

Json measure_cost(const LoadedPair& pair, const StudyOptions& options,
                  const std::function<void(std::int64_t, std::int64_t, double)>& watch) {
  std::vector<Prompt> prompts(pair.prompts().begin(), pair.prompts().begin() + options.prompts_per_step);
  for (std::size_t i = 0; i < prompts.size(); ++i) prompts[i].number = static_cast<std::uint32_t>(i);
  const std::vector<Variant> variants = cost_variants(options);
  std::vector<Measured> measured(variants.size());
  std::int64_t done = 0;
  for (std::int32_t round = 0; round < options.rounds; ++round) {
    for (std::size_t v = 0; v < variants.size(); ++v) {
      measure(pair, variants[v], options, prompts, measured[v]);
      done += 2;
      if (watch) watch(done, cost_steps(options), measured[v].seconds["total"].back());
    }
  }
  const auto reference = std::find_if(variants.begin(), variants.end(),
                                      [](const Variant& variant) { return variant.name == kReference; });
  Json arms = Json::array();
  for (std::size_t v = 0; v < variants.size(); ++v)
    arms.push_back(measured[v].json(variants[v], options,
                                    measured[static_cast<std::size_t>(reference - variants.begin())]));
  return {{"rounds", options.rounds}, {"arms", arms}, {"routes", route_costs(pair, options, prompts)}};
}

}  // namespace routeopd::lab
