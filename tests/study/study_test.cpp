// The study's plan: what runs, probes and measurements a part needs, and what is made of a few rounds.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "routeopd/study/concentration.h"
#include "routeopd/study/cost.h"
#include "routeopd/study/study_pace.h"
#include "routeopd/study/study_probes.h"
#include "routeopd/study/study_run.h"
#include "testing_files.h"

namespace routeopd::study {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> names_in(const std::string& part, const StudyOptions& options) {
  std::vector<std::string> names;
  for (const PlannedRun& run : runs_of(part_named(part), options)) names.push_back(run.name());
  return names;
}

// Every setting of its objective.
std::string settings_of(const Variant& variant, const StudyOptions& options) {
  std::string words;
  const routing::ObjectiveOptions objective = objective_of(variant, options);
  for (const auto& field : routing::objective_fields()) words += field.get(objective).dump() + " ";
  return words;
}

TEST(StudyOptions, EverySettingSurvivesTheManifest) {
  StudyOptions options = default_options(true, false);
  options = with_settings(options, {{"steps", 7},
                                    {"lr", 1e-4},
                                    {"seeds", 2},
                                    {"main_seeds", 4},
                                    {"arms", "routeopd,exact"},
                                    {"template", "raw"},
                                    {"lrs", "2e-4,1e-4"},
                                    {"tune_seeds", Json::array({7})},
                                    {"tune_arms", "exact"}});
  EXPECT_EQ(options.lr, 1e-4);
  EXPECT_THAT(options.lrs, ElementsAre(1e-4, 2e-4));
  EXPECT_THAT(options.tune_seeds, ElementsAre(7));
  EXPECT_THAT(options.seeds, ElementsAre(42, 43));
  EXPECT_THAT(options.main_seeds, ElementsAre(42, 43, 44, 45));
  EXPECT_THAT(options.arms, ElementsAre("routeopd", "exact"));
  EXPECT_EQ(json_of(with_settings({}, json_of(options))), json_of(options));
  EXPECT_THAT(with_settings(default_options(true, false), {{"seeds", 1}}).main_seeds, ElementsAre(42));
}

TEST(StudyOptions, WhatMeansNothingIsRefused) {
  const auto refused = [](const Json& said) { return error_of([&] { with_settings({}, said); }); };
  EXPECT_THAT(refused({{"stepz", 1}}), HasSubstr("did you mean steps"));
  EXPECT_THAT(refused({{"steps", 0}}), HasSubstr("steps"));
  EXPECT_THAT(refused({{"seeds", 0}}), HasSubstr("seeds"));
  EXPECT_THAT(refused({{"seeds", Json::array({1, 1})}}), HasSubstr("different seeds"));
  EXPECT_THAT(refused({{"seeds", Json::array()}}), HasSubstr("different seeds"));
  EXPECT_THAT(refused({{"arms", "sft"}}), HasSubstr("no arm sft"));
  EXPECT_THAT(refused({{"arms", "exact,exact"}}), HasSubstr("named twice"));
  EXPECT_THAT(refused({{"arms", 3}}), HasSubstr("arms"));
  EXPECT_THAT(refused({{"arms", Json::object()}}), HasSubstr("arms: expected words"));
  EXPECT_THAT(refused({{"lr", "fast"}}), HasSubstr("lr: expected a number or tuned"));
  EXPECT_THAT(refused({{"lr", 0}}), HasSubstr("lr"));
  EXPECT_THAT(refused({{"lrs", ""}}), HasSubstr("different rates"));
  EXPECT_THAT(refused({{"lrs", "1e-4,1e-4"}}), HasSubstr("different rates"));
  EXPECT_THAT(refused({{"lrs", "1e-4,x"}}), HasSubstr("lrs"));
  EXPECT_THAT(refused({{"tune_arms", "sft"}}), HasSubstr("tune_arms: the study has no arm sft"));
  EXPECT_THAT(refused({{"tune_seeds", Json::array({142, 43})}}),
              HasSubstr("43 is a seed of the study's runs"));
  EXPECT_THAT(refused({{"main_seeds", 102}}), HasSubstr("142 is a seed of the study's runs"));
}

TEST(Variants, AreDifferentObjectives) {
  const StudyOptions options = default_options(true, false);
  std::set<std::string> names, objectives;
  for (const Variant& variant : all_variants(options)) {
    names.insert(variant.name);
    objectives.insert(settings_of(variant, options));
  }
  EXPECT_EQ(names.size(), 30U);
  EXPECT_EQ(objectives.size(), 30U);
}

TEST(Variants, TheStudysOwnKAndMAreOneRun) {
  StudyOptions options = default_options(true, false);
  options.k = 32;
  options.m = 4;
  const std::vector<std::string> names = names_in("sweeps", options);
  EXPECT_THAT(names, Contains("routeopd-k16-seed42"));
  EXPECT_THAT(names, Contains("routeopd-m2-seed42"));
  EXPECT_THAT(names, Not(Contains("routeopd-k32-seed42")));
  EXPECT_THAT(names, Not(Contains("routeopd-m4-seed42")));
}

TEST(Variants, APartHasWhatItComparesWith) {
  StudyOptions options = default_options(true, false);
  EXPECT_EQ(names_in("tune", options).size(), 0U) << "its trials depend on what they find";
  EXPECT_EQ(names_in("main", options).size(), 2 * 24U);
  EXPECT_THAT(names_in("main", options), Contains("full_fkl-shared-seed43"));
  options.lr = 1e-4;
  EXPECT_EQ(names_in("main", options).size(), 24U) << "all at one rate: once";
  EXPECT_EQ(names_in("ablations", options).size(), 48U);
  EXPECT_EQ(names_in("sweeps", options).size(), 30U);
  EXPECT_EQ(names_in("dynamics", options).size(), 8U);
  EXPECT_EQ(names_in("cost", options).size(), 0U);
  EXPECT_THAT(names_in("ablations", options), Contains("fixed_mid-seed44"));
  EXPECT_THAT(names_in("sweeps", options), Contains("exact-seed42"));

  options = with_settings(options, {{"arms", "routeopd,fixed_low,sampled_rkl"}, {"seeds", 1}});
  EXPECT_THAT(names_in("main", options),
              ElementsAre("routeopd-seed42", "fixed_low-seed42", "sampled_rkl-seed42"));
  EXPECT_THAT(names_in("ablations", options), ElementsAre("routeopd-seed42", "fixed_low-seed42"));
  EXPECT_THAT(names_in("dynamics", options), ElementsAre("routeopd-seed42", "sampled_rkl-seed42"));
}

// A run that two parts share must be the same run.
TEST(Variants, HowARunIsMadeDoesNotDependOnThePart) {
  const StudyOptions options = default_options(true, false);
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> made;
  for (const std::string& part : part_names()) {
    for (const PlannedRun& run : runs_of(part_named(part), options)) {
      const auto [place, first] = made.try_emplace(run.name(), run.every, run.hold);
      EXPECT_EQ(place->second, std::pair(run.every, run.hold)) << part << " " << run.name();
    }
  }
  EXPECT_EQ(made.size(), 90U + 24U);
  EXPECT_EQ(made.at("routeopd-seed42"), std::pair(std::int64_t{5}, std::int64_t{15}));
  EXPECT_EQ(made.at("routeopd-seed43"), std::pair(std::int64_t{0}, std::int64_t{0}));
  EXPECT_EQ(made.at("fixed_low-seed42"), std::pair(std::int64_t{0}, std::int64_t{0}));
}

TEST(Variants, TheCheckpointThatStaysIsOneThatIsMade) {
  StudyOptions options = default_options(true, false);
  const auto hold = [&](std::int64_t steps, std::int64_t save_every) {
    options.steps = steps;
    options.save_every = save_every;
    return runs_of(part_named("main"), options).front().hold;
  };
  EXPECT_EQ(hold(30, 1), 15);
  EXPECT_EQ(hold(30, 10), 10);
  EXPECT_EQ(hold(15, 10), 10);
  EXPECT_EQ(hold(10, 10), 0) << "the last one stays in any case";
  EXPECT_EQ(hold(1, 1), 0);
}

TEST(StudyRun, IsEvaluatedWhenDueAndAtItsEnd) {
  PlannedRun run;
  EXPECT_EQ(evaluations_of(run, 7), 1);
  run.every = 3;
  std::vector<std::int64_t> due;
  for (std::int64_t step = 1; step <= 7; ++step)
    if (is_due(run, step, 7)) due.push_back(step);
  EXPECT_THAT(due, ElementsAre(3, 6, 7));
  EXPECT_EQ(evaluations_of(run, 7), 3);
  EXPECT_EQ(evaluations_of(run, 6), 2);
}

TEST(StudyRun, TheNewestCheckpointStaysWhateverTheStep) {
  using Names = std::set<std::string>;
  const TemporaryDirectory directory;
  const auto left = [&](const std::vector<int>& made, std::int64_t hold) {
    const std::filesystem::path run = directory.path() / "run", place = run / "checkpoints";
    std::filesystem::remove_all(run);
    std::filesystem::create_directories(place / "step_1.damaged");
    for (const int step : made)
      std::filesystem::create_directories(place / fmt::format("step_{}", step) / "state");
    remove_checkpoints(run, hold);
    Names names;
    for (const auto& entry : std::filesystem::directory_iterator(place))
      names.insert(entry.path().filename().string());
    return names;
  };
  EXPECT_EQ(left({2}, 0), (Names{"step_1.damaged", "step_2"})) << "step 3 has none to go on from but this";
  EXPECT_EQ(left({2, 4, 10}, 0), (Names{"step_1.damaged", "step_10"}));
  EXPECT_EQ(left({2, 4, 6}, 2), (Names{"step_1.damaged", "step_2", "step_6"}));
  remove_checkpoints(directory.path() / "nothing", 0);
}

TEST(StudyPace, IsWhatWasMeasured) {
  StudyPace pace;
  pace.add(10, 2);
  EXPECT_LT(pace.seconds_left(), 0);
  pace.stepped(3);
  EXPECT_LT(pace.seconds_left(), 0) << "no evaluation was measured";
  pace.evaluated(5);
  EXPECT_DOUBLE_EQ(pace.seconds_left(), 9 * 3 + 5);
  pace.add(-4, 0);
  EXPECT_DOUBLE_EQ(pace.seconds_left(), 5 * 3 + 5);
  pace.evaluated(5);
  pace.stepped(15, 5);
  EXPECT_DOUBLE_EQ(pace.seconds_left(), 0);
}

TEST(StudyPace, ARowCountsAsAStepUntilOneWasMeasured) {
  StudyPace pace;
  pace.add(0, 0, 3);
  EXPECT_LT(pace.seconds_left(), 0);
  pace.add(4, 0);
  pace.stepped(2);
  EXPECT_DOUBLE_EQ(pace.seconds_left(), 3 * 2 + 3 * 2);
  pace.probed(10);
  EXPECT_DOUBLE_EQ(pace.seconds_left(), 3 * 2 + 2 * 10);
  EXPECT_EQ(pace.steps(), 3);
  EXPECT_EQ(pace.rows(), 2);
}

TEST(Probes, AreMadeWhateverCheckpointsThereAre) {
  const auto names = [](const std::vector<PlannedProbe>& probes) {
    std::vector<std::string> all;
    for (const PlannedProbe& planned : probes) all.push_back(planned.name);
    return all;
  };
  // Another pair under --quick makes its only checkpoint at its end.
  std::vector<PlannedProbe> probes = probes_of(default_options(false, true));
  ASSERT_THAT(names(probes), ElementsAre("arms", "support", "ladder"));
  EXPECT_EQ(probes[0].rows(), 22);
  EXPECT_EQ(probes[1].rows(), 10);
  EXPECT_EQ(probes[2].rows(), 6);
  EXPECT_EQ(probes[0].checkpoint, "");
  EXPECT_EQ(probes[2].checkpoint, "runs/routeopd-seed42/checkpoints/step_10");
  EXPECT_EQ(probes[2].at, "routeopd-seed42 step_10");
  StudyOptions options = default_options(true, false);
  EXPECT_EQ(probes_of(options)[2].at, "routeopd-seed42 step_15");

  options = with_settings(options, {{"arms", "fixed_mid,routeopd-k4"}});
  probes = probes_of(options);
  ASSERT_THAT(names(probes), ElementsAre("arms", "support"));
  ASSERT_EQ(probes[0].arms.size(), 1U);
  EXPECT_EQ(probes[0].arms[0].name, "fixed_mid");
  ASSERT_EQ(probes[1].arms.size(), 1U);
  EXPECT_EQ(probes[1].arms[0].name, "routeopd-k4");
}

TEST(Concentration, IsWeightedByTheMassOfTheRoutedStates) {
  Routes routes;
  routes.validity_N = {Validity::kValid, Validity::kValid, Validity::kValid, Validity::kNonFinite};
  routes.routed_N = {1, 0, 1, 0};
  routes.mass_N = {0.5F, 0.25F, 0.125F, 0};
  routes.concentration_N = {0.75F, 0, 0.25F, 0};
  routes.budget_N = {0.25F, 0, 0.375F, 0};
  ConcentrationSums sums;
  for (std::size_t n = 0; n < 4; ++n) sums.add(routes, n);
  const Json line = sums.json("words", "p");
  EXPECT_EQ(line["states"].get<int>(), 3);
  EXPECT_DOUBLE_EQ(line["mass"].get<double>(), (0.5 + 0.25 + 0.125) / 3);
  EXPECT_DOUBLE_EQ(line["concentration"].get<double>(), (0.5 * 0.75 + 0.125 * 0.25) / (0.5 + 0.125));
  EXPECT_DOUBLE_EQ(line["budget"].get<double>(), (0.25 + 0.375) / 2);

  ConcentrationSums unrouted;
  unrouted.add(routes, 1);
  EXPECT_EQ(unrouted.json("words", "q"), (Json{{"suite", "words"},
                                               {"problem", "q"},
                                               {"states", 1},
                                               {"mass", 0.25},
                                               {"concentration", nullptr},
                                               {"budget", nullptr}}));
}

std::vector<std::string> cost_names(const StudyOptions& options) {
  std::vector<std::string> names;
  for (const Variant& variant : cost_variants(options)) names.push_back(variant.name);
  return names;
}

TEST(Cost, AnArmIsCalledAsItsRunsAre) {
  using Names = std::vector<std::string>;
  for (const bool laboratory : {true, false}) {
    const StudyOptions options = default_options(laboratory, false);
    std::map<std::string, std::string> runs;  // name by settings
    for (const Variant& variant : all_variants(options)) runs[settings_of(variant, options)] = variant.name;
    Names without_runs;
    for (const Variant& variant : cost_variants(options)) {
      if (variant.name == kLeanReference)
        continue;  // sampled_rkl without records, which the study does not run
      const auto run = runs.find(settings_of(variant, options));
      if (run == runs.end()) {
        without_runs.push_back(variant.name);
      } else {
        EXPECT_EQ(variant.name, run->second);
      }
    }
    EXPECT_EQ(without_runs,
              laboratory ? Names({"routeopd-k32-m1", "routeopd-k32-m4", "routeopd-k32-m8"}) : Names());
    EXPECT_THAT(cost_names(options), Contains("routeopd-k64"));
    EXPECT_THAT(cost_names(options), Contains(laboratory ? "routeopd-k32" : "routeopd-k16"));
  }
}

TEST(Cost, KeepsToTheArmsThatWereNamed) {
  const StudyOptions all = default_options(true, false);
  EXPECT_EQ(cost_names(all).size(), 1U + 8U + 5U + 1U);
  EXPECT_THAT(cost_names(with_settings(all, {{"arms", "routeopd"}})),
              ElementsAre("sampled_rkl-lean", "sampled_rkl", "routeopd", "routeopd-k32-m1", "routeopd-k32",
                          "routeopd-k32-m4", "routeopd-k32-m8", "routeopd-k64", "routeopd-kfull"));
  EXPECT_THAT(cost_names(with_settings(all, {{"arms", "routeopd-k64,full_rkl"}})),
              ElementsAre("sampled_rkl-lean", "sampled_rkl", "full_rkl", "routeopd-k64"));
}

// Against products and differences of pairs, without a mean of logarithms.
TEST(Cost, AnIntervalOverRoundsIsStudentsOfTheLogarithms) {
  const std::vector<double> ratios = {1.1, 1.3, 1.2, 1.5, 0.9};
  double product = 1, squares = 0;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    product *= ratios[i];
    for (std::size_t j = 0; j < i; ++j) squares += std::pow(std::log(ratios[i] / ratios[j]), 2);
  }
  const double mean = std::pow(product, 1.0 / 5);
  const double half = 2.776 * std::sqrt(squares / (5 * 4) / 5);  // t with 4 degrees of freedom
  const RatioInterval interval = interval_over_rounds(ratios);
  EXPECT_NEAR(interval.mean, mean, 1e-12);
  EXPECT_NEAR(interval.low.value(), mean / std::exp(half), 1e-12);
  EXPECT_NEAR(interval.high.value(), mean * std::exp(half), 1e-12);

  // Two that are 4 times one another: s = ln 4 / sqrt 2, and s / sqrt 2 = ln 2.
  const RatioInterval two = interval_over_rounds(std::vector<double>{2, 8});
  EXPECT_NEAR(two.mean, 4, 1e-12);
  EXPECT_NEAR(two.low.value() / (4 * std::exp2(-12.706)), 1, 1e-12);
  EXPECT_NEAR(two.high.value() / (4 * std::exp2(12.706)), 1, 1e-12);

  const RatioInterval same = interval_over_rounds(std::vector<double>{1, 1, 1});
  EXPECT_EQ(same.mean, 1);
  EXPECT_EQ(same.low.value(), 1);
  EXPECT_EQ(same.high.value(), 1);

  // 50 pairs of 1/2 and 2: squares of ln 2, and the normal distribution's 1.96.
  std::vector<double> many;
  for (int i = 0; i < 50; ++i) many.insert(many.end(), {0.5, 2.0});
  const RatioInterval wide = interval_over_rounds(many);
  EXPECT_NEAR(wide.mean, 1, 1e-12);
  EXPECT_NEAR(std::log(wide.high.value()), 1.96 * std::log(2.0) * std::sqrt(100.0 / 99 / 100), 1e-12);

  const RatioInterval one = interval_over_rounds(std::vector<double>{1.5});
  EXPECT_NEAR(one.mean, 1.5, 1e-12);
  EXPECT_FALSE(one.low.has_value() || one.high.has_value()) << "one round says nothing of its spread";
}

}  // namespace
}  // namespace routeopd::study
