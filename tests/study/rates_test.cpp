// How a study chooses learning rates: the order of trials, ties, extensions of the grid, who takes whose
// rate, and the record.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "testing_files.h"

namespace routeopd::study {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Averages that a trial would find.
using Landscape = std::function<double(const Trial&)>;

StudyOptions options_with(const Json& settings) {
  return with_settings(default_options(true, false), settings);
}

// Every trial that is asked for, answered by the landscape.
std::vector<Trial> all_trials(const StudyOptions& options, const Landscape& average,
                              std::vector<Trial> done = {}) {
  while (std::optional<Trial> trial = next_trial(options, done)) {
    trial->average = average(*trial);
    done.push_back(*trial);
    if (done.size() > 1000) throw std::runtime_error("tuning does not end");
  }
  return done;
}

std::vector<double> rates_tried(const std::vector<Trial>& trials) {
  std::vector<double> rates;
  for (const Trial& trial : trials)
    if (std::find(rates.begin(), rates.end(), trial.lr) == rates.end()) rates.push_back(trial.lr);
  return rates;
}

double chosen(const StudyOptions& options, const Landscape& average) {
  return rates_of(chosen_rates(options, all_trials(options, average))).of(variant_named("routeopd", options));
}

const Json kOneArm = {{"tune_arms", "routeopd"}, {"lrs", "1e-4,2e-4,4e-4,8e-4"}};

TEST(Rates, EveryArmTriesTheSameGridWithEverySeed) {
  const StudyOptions options = options_with({{"lrs", "1e-4,2e-4,4e-4"}});
  const std::vector<Trial> trials =
      all_trials(options, [](const Trial& trial) { return trial.lr == 2e-4 ? 0.9 : 0.5; });
  EXPECT_THAT(tuned_arms(options),
              ElementsAre("sampled_rkl", "full_rkl", "fixed_mid", "routeopd", "union_rkl"));
  ASSERT_EQ(trials.size(), 5U * 3 * 2);
  std::size_t at = 0;
  for (const std::string& arm : tuned_arms(options)) {
    for (const double lr : options.lrs) {
      for (const std::uint64_t seed : {142U, 143U}) {
        EXPECT_EQ(trials[at].name(), fmt::format("{}-lr{}-seed{}", arm, lr, seed));
        ++at;
      }
    }
  }
}

TEST(Rates, TheHighestMeanOverSeedsWins) {
  const StudyOptions options = options_with(kOneArm);
  // By either seed alone another rate would win.
  const Landscape average = [](const Trial& trial) {
    if (trial.lr == 2e-4) return 0.80;
    if (trial.lr == 4e-4) return trial.seed == 142 ? 0.90 : 0.60;
    return trial.seed == 142 ? 0.1 : 0.85;
  };
  EXPECT_EQ(chosen(options, average), 2e-4);
}

TEST(Rates, WithinThreeTenthsOfAPointTheSmallerWins) {
  const StudyOptions options = options_with(kOneArm);
  const auto with_lead = [](double lead) {
    return [lead](const Trial& trial) {
      return trial.lr == 2e-4 ? 0.8 : trial.lr == 4e-4 ? 0.8 + lead : 0.5;
    };
  };
  EXPECT_EQ(chosen(options, with_lead(0.0029)), 2e-4);
  EXPECT_EQ(chosen(options, with_lead(0.003)), 2e-4);
  EXPECT_EQ(chosen(options, with_lead(0.0031)), 4e-4);
}

TEST(Rates, AWinnerAtTheEndExtendsTheGridTwiceAtMost) {
  const StudyOptions options = options_with(kOneArm);
  const auto peak_at = [](double peak) {
    return [peak](const Trial& trial) { return 0.9 - 0.1 * std::abs(std::log2(trial.lr / peak)); };
  };
  const auto tried = [&](double peak) { return rates_tried(all_trials(options, peak_at(peak))); };
  EXPECT_THAT(tried(2e-4), ElementsAre(1e-4, 2e-4, 4e-4, 8e-4));
  EXPECT_THAT(tried(8e-4), ElementsAre(1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3));
  EXPECT_THAT(tried(1e-2), ElementsAre(1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3, 3.2e-3));
  EXPECT_THAT(tried(1e-4), ElementsAre(1e-4, 2e-4, 4e-4, 8e-4, 5e-5));
  EXPECT_THAT(tried(1e-6), ElementsAre(1e-4, 2e-4, 4e-4, 8e-4, 5e-5, 2.5e-5));
  EXPECT_EQ(chosen(options, peak_at(8e-4)), 8e-4);
  EXPECT_EQ(chosen(options, peak_at(1e-2)), 3.2e-3) << "the best of what was tried";
  // A tie at the upper end is won by the smaller rate, which lies inside.
  EXPECT_THAT(
      rates_tried(all_trials(options, [](const Trial& trial) { return trial.lr > 3e-4 ? 0.9 : 0.5; })),
      ElementsAre(1e-4, 2e-4, 4e-4, 8e-4));
  // A spacing finer than two digits cannot be continued, nor can a grid at the end of what a study takes.
  for (const char* grid : {"1e-4,1.001e-4", "1.234e-3,1.235e-3", "1e-12,1e-11", "0.5,1"}) {
    const StudyOptions fixed = options_with({{"tune_arms", "routeopd"}, {"lrs", grid}});
    for (const double peak : {1e-15, 1e3})
      EXPECT_LE(rates_tried(all_trials(fixed, peak_at(peak))).size(), 4U) << grid;
    for (const Trial& trial : all_trials(fixed, peak_at(1e-15))) EXPECT_GE(trial.lr, 1e-12);
    for (const Trial& trial : all_trials(fixed, peak_at(1e3))) EXPECT_LE(trial.lr, 1.0);
  }
  // One rate has no spacing to extend by.
  const StudyOptions one = options_with({{"tune_arms", "routeopd"}, {"lrs", 3e-4}});
  EXPECT_THAT(rates_tried(all_trials(one, peak_at(1e-3))), ElementsAre(3e-4));
}

TEST(Rates, OtherArmsInherit) {
  const StudyOptions options = default_options(true, false);
  Rates rates{
      .own = {{"sampled_rkl", 1}, {"full_rkl", 2}, {"fixed_mid", 3}, {"routeopd", 4}, {"union_rkl", 5}},
      .shared = 9};
  const auto rate = [&](const std::string& name) { return rates.of(variant_named(name, options)); };
  EXPECT_EQ(rate("sampled_rkl"), 1);
  EXPECT_EQ(rate("full_rkl"), 2);
  EXPECT_EQ(rate("union_rkl"), 5);
  for (const char* name :
       {"exact", "fixed_low", "fixed_high", "reversed", "routeopd-k64", "routeopd-kfull", "routeopd-m8"})
    EXPECT_EQ(rate(name), 4) << name;
  for (const char* name : {"full_fkl", "union_fkl"}) EXPECT_EQ(rate(name), 5) << name;
  for (const char* name : {"fixed_mid", "uniform_deficit", "student_proportional", "rank_matched",
                           "random_background", "source_only", "source_only-one", "destination_only",
                           "destination_only-one", "no_mass", "independent_clipping"})
    EXPECT_EQ(rate(name), 3) << name;

  // Where fewer are tuned, the nearest of them.
  rates.own = {{"sampled_rkl", 1}, {"routeopd", 4}};
  EXPECT_EQ(rate("full_rkl"), 1);
  EXPECT_EQ(rate("union_fkl"), 1);
  EXPECT_EQ(rate("no_mass"), 4);
  rates.own = {{"fixed_mid", 3}};
  EXPECT_EQ(rate("routeopd-k4"), 3);
  EXPECT_EQ(rate("sampled_rkl"), 9) << "nobody's: the shared one";
  rates.own = {};
  EXPECT_EQ(rate("routeopd"), 9);
}

TEST(Rates, OnlyArmsThatAStudyNeedsAreTuned) {
  EXPECT_THAT(tuned_arms(options_with({{"arms", "exact,full_fkl"}})), ElementsAre("routeopd", "union_rkl"));
  EXPECT_THAT(tuned_arms(options_with({{"arms", "no_mass"}})), ElementsAre("fixed_mid"));
  EXPECT_THAT(tuned_arms(options_with({{"arms", "no_mass"}, {"tune_arms", "exact"}})), ElementsAre("exact"));
}

TEST(Rates, TheSharedOneIsTheLowerMedian) {
  StudyOptions options = options_with({{"lrs", "1e-4,2e-4,4e-4,8e-4"}});
  const auto best = [](const std::map<std::string, double>& best_of) {
    return [best_of](const Trial& trial) { return trial.lr == best_of.at(trial.arm) ? 0.9 : 0.5; };
  };
  Landscape average = best({{"sampled_rkl", 4e-4},
                            {"full_rkl", 2e-4},
                            {"fixed_mid", 4e-4},
                            {"routeopd", 4e-4},
                            {"union_rkl", 2e-4}});
  EXPECT_EQ(chosen_rates(options, all_trials(options, average)).shared_lr, 4e-4);
  options = options_with({{"lrs", "1e-4,2e-4,4e-4,8e-4"}, {"tune_arms", "sampled_rkl,full_rkl"}});
  EXPECT_EQ(chosen_rates(options, all_trials(options, average)).shared_lr, 2e-4) << "of two the lower";
}

TEST(Rates, AStoppedTuningContinuesWhereItWas) {
  const StudyOptions options = options_with(kOneArm);
  const Landscape average = [](const Trial& trial) { return 0.4 + 100 * trial.lr; };
  const std::vector<Trial> whole = all_trials(options, average);
  EXPECT_EQ(whole.size(), 2U * 6);
  for (std::size_t stop = 0; stop <= whole.size(); ++stop) {
    const std::vector<Trial> done(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(stop));
    const std::vector<Trial> resumed = all_trials(options, average, done);
    ASSERT_EQ(resumed.size(), whole.size()) << stop;
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(resumed[i].name(), whole[i].name());
    EXPECT_GE(fewest_trials(options, done), std::max<std::int64_t>(8, std::ssize(done)));
  }
  EXPECT_EQ(fewest_trials(options, whole), 12);
}

class Record : public testing::Test {
 protected:
  std::filesystem::path write(const Json& record) { return directory_.write("tune.json", record.dump()); }
  std::string error_with(const Json& record) {
    return error_of([&] { read_tuning(write(record)); });
  }

  StudyOptions options_ = options_with(kOneArm);
  std::vector<Trial> trials_ = all_trials(
      options_, [](const Trial& trial) { return 0.5 + 100 * trial.lr - (trial.seed == 143 ? 0.125 : 0); });
  Tuning tuning_ = chosen_rates(options_, trials_);
  TemporaryDirectory directory_;
};

TEST_F(Record, IsReadAsItWasWritten) {
  tuning_.rates[1].completion = 0.25;
  tuning_.rates[1].overshoot = 0.125;
  tuning_.rates[1].rms = 0.0625;
  const Json record = tuning_json(options_, trials_, {{"student", "abc"}}, tuning_);
  const Tuning read = read_tuning(write(record));
  ASSERT_EQ(read.rates.size(), tuning_.rates.size());
  for (std::size_t i = 0; i < read.rates.size(); ++i) {
    const TunedRate &a = read.rates[i], &b = tuning_.rates[i];
    EXPECT_EQ(a.arm, b.arm);
    EXPECT_EQ(a.lr, b.lr);
    EXPECT_EQ(a.per_seed, b.per_seed);
    EXPECT_EQ(a.chosen, b.chosen);
    EXPECT_EQ(a.completion, b.completion);
    EXPECT_EQ(a.overshoot, b.overshoot);
    EXPECT_EQ(a.rms, b.rms);
  }
  EXPECT_EQ(read.shared_lr, tuning_.shared_lr);
  EXPECT_EQ(read.samples, 8);
  EXPECT_EQ(read.problems, 64);
  const std::vector<Trial> again = read_trials(directory_.path() / "tune.json", options_);
  ASSERT_EQ(again.size(), trials_.size());
  EXPECT_EQ(again.back().name(), trials_.back().name());
  EXPECT_EQ(again.back().average, trials_.back().average);
  EXPECT_EQ(record["arms"][0]["extended"], 2);
}

TEST_F(Record, OfAnotherTuningOrDamagedIsRefused) {
  const Json good = tuning_json(options_, trials_, {}, tuning_);
  EXPECT_EQ(error_with(good), "");
  EXPECT_THAT(error_with(tuning_json(options_, trials_, {}, std::nullopt)), HasSubstr("not complete"));
  EXPECT_THAT(error_with({{"kind", "study"}}), HasSubstr("is no record of tuning"));
  EXPECT_THAT(error_of([&] { read_tuning(directory_.path() / "nowhere.json"); }), HasSubstr("nowhere.json"));
  for (const auto& [path, value] : std::vector<std::pair<std::string, Json>>{
           {"/arms/0/lr", 7},
           {"/arms/0/lr", 3e-4},
           {"/arms/0/rates/0/lr", "fast"},
           {"/arms/0/rates/0/per_seed", Json::array()},
           {"/arms/0/rates/0/per_seed/0", 1.5},
           {"/arms/0/rates/0/rms", "x"},
           {"/arms", Json::array()},
           {"/arms", 3},
           {"/shared_lr", nullptr},
           {"/shared_lr", 1e-4},
           {"/arms/0/arm", "banana"},
           {"/arms/1", good["arms"][0]},
           {"/trials/0/seed", good["trials"][0]["seed"].get<double>() + 0.5},
           {"/seeds/0", good["seeds"][0].get<double>() + 0.5},
           {"/seeds/0", -1e300},
           {"/seeds", 42},
           {"/judged_problems", 0}}) {
    Json bad = good;
    bad[Json::json_pointer(path)] = value;
    EXPECT_THAT(error_with(bad), HasSubstr("damaged record")) << path << " " << value;
  }
  write(good);
  StudyOptions other = options_;
  other.tune_samples = 4;
  EXPECT_THAT(error_of([&] { read_trials(directory_.path() / "tune.json", other); }),
              HasSubstr("another samples"));
  EXPECT_TRUE(read_trials(directory_.path() / "none.json", options_).empty());
}

}  // namespace
}  // namespace routeopd::study
