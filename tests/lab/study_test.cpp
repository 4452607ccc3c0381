// The study's plan and files: what runs a part needs, what a manifest keeps, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "routeopd/lab/cost.h"
#include "routeopd/lab/study_pace.h"
#include "routeopd/lab/study_run.h"
#include "testing_files.h"

namespace routeopd::lab {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> names_in(const std::string& part, const StudyOptions& options) {
  std::vector<std::string> names;
  for (const PlannedRun& run : runs_of(part, options)) names.push_back(run.name());
  return names;
}

TEST(StudyOptions, EverySettingSurvivesTheManifest) {
  StudyOptions options = default_options(true, false);
  options = with_settings(options, {{"steps", 7},
                                    {"lr", 1e-4},
                                    {"seeds", 2},
                                    {"main_seeds", 4},
                                    {"arms", "routeopd,exact"},
                                    {"template", "raw"}});
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
}

TEST(Variants, AreDifferentObjectives) {
  const StudyOptions options = default_options(true, false);
  std::set<std::string> names, objectives;
  for (const Variant& variant : all_variants(options)) {
    names.insert(variant.name);
    std::string words;
    const routing::ObjectiveOptions objective = objective_of(variant, options);
    for (const auto& field : routing::objective_fields()) words += field.get(objective).dump() + " ";
    objectives.insert(words);
  }
  EXPECT_EQ(names.size(), 29U);
  EXPECT_EQ(objectives.size(), 29U);
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
  EXPECT_EQ(names_in("main", options).size(), 24U);
  EXPECT_EQ(names_in("ablations", options).size(), 45U);
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
TEST(Variants, HowARunIsMadeDoesNotHangOnThePart) {
  const StudyOptions options = default_options(true, false);
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> made;
  for (const std::string& part : part_names()) {
    for (const PlannedRun& run : runs_of(part, options)) {
      const auto [place, first] = made.try_emplace(run.name(), run.every, run.hold);
      EXPECT_EQ(place->second, std::pair(run.every, run.hold)) << part << " " << run.name();
    }
  }
  EXPECT_EQ(made.size(), 87U);
  EXPECT_EQ(made.at("routeopd-seed42"), std::pair(std::int64_t{5}, std::int64_t{15}));
  EXPECT_EQ(made.at("routeopd-seed43"), std::pair(std::int64_t{0}, std::int64_t{0}));
  EXPECT_EQ(made.at("fixed_low-seed42"), std::pair(std::int64_t{0}, std::int64_t{0}));
}

TEST(Variants, TheCheckpointThatStaysIsOneThatIsMade) {
  StudyOptions options = default_options(true, false);
  const auto hold = [&](std::int64_t steps, std::int64_t save_every) {
    options.steps = steps;
    options.save_every = save_every;
    return runs_of("main", options).front().hold;
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

TEST(Cost, IntervalOverRoundsHoldsTheMean) {
  const std::vector<double> same = {2, 2, 2};
  const grade::Interval none = interval_over_rounds(same);
  EXPECT_EQ(none.low, 2);
  EXPECT_EQ(none.high, 2);
  const std::vector<double> spread = {1, 2, 3, 4, 5};
  const grade::Interval interval = interval_over_rounds(spread);
  EXPECT_DOUBLE_EQ(interval.mean, 3);
  // The mean of five draws of five has a standard deviation of sqrt(2 / 5) = 0.632.
  EXPECT_NEAR(interval.low, 3 - 1.96 * 0.632, 0.15);
  EXPECT_NEAR(interval.high, 3 + 1.96 * 0.632, 0.15);
}

// Files of a pair that nothing loads.
class Files : public testing::Test {
 protected:
  Files() {
    for (const char* name : {"base", "teacher"}) {
      std::filesystem::create_directories(directory_.path() / "lab" / name);
      directory_.write(fmt::format("lab/{}/model.safetensors", name), name);
    }
    directory_.write("lab/train.jsonl", "{}\n");
    directory_.write("lab/heldout.jsonl", "{}\n");
    request_.pair = laboratory_pair(directory_.path() / "lab");
  }
  std::filesystem::path out() const { return directory_.path() / "study"; }
  std::string error() const {
    return error_of([&] { StudyFiles files(out(), request_); });
  }
  PlannedRun run() const { return runs_of("main", default_options(true, false)).front(); }

  TemporaryDirectory directory_;
  StudyRequest request_;
};

TEST_F(Files, GoOnWithWhatTheyBeganWith) {
  request_.settings = {{"steps", 3}};
  {
    StudyFiles files(out(), request_);
    files.record(run(), false);
    EXPECT_FALSE(files.complete(run()));
    files.record(run(), true);
    files.finish("main", false, 2, "");
    files.finish("main", true, 3, "a note");
    files.put_probe("arms", "probes/arms", "base");
    files.put_probe("arms", "probes/arms", "base");
  }
  request_ = {};  // nothing is said
  const StudyFiles files(out(), request_);
  EXPECT_EQ(files.options().steps, 3);
  EXPECT_TRUE(files.complete("main"));
  EXPECT_FALSE(files.complete("sweeps"));
  EXPECT_EQ(files.manifest()["parts"]["main"],
            (Json{{"complete", true}, {"seconds", 5.0}, {"note", "a note"}}));
  EXPECT_EQ(files.manifest()["runs"].size(), 1U);
  EXPECT_EQ(files.manifest()["probes"].size(), 1U);
  EXPECT_FALSE(files.complete(run())) << "its files are not there";
}

TEST_F(Files, RefuseAnotherStudy) {
  request_.settings = {{"steps", 3}, {"seeds", 2}};
  {
    StudyFiles files(out(), request_);
  }
  EXPECT_EQ(error(), "");
  request_.settings = {{"steps", 4}};
  EXPECT_THAT(error(), HasSubstr("another steps (3, now 4)"));
  request_.settings = {{"seeds", 3}};
  EXPECT_THAT(error(), HasSubstr("another seeds ([42,43], now [42,43,44])"));
  request_.settings = Json::object();
  request_.quick = true;
  EXPECT_THAT(error(), HasSubstr("another quick (false, now true)"));
  request_.quick = false;
  request_.pair->student = "/elsewhere";
  EXPECT_THAT(error(), HasSubstr("another pair.student"));
  request_.pair.reset();
  EXPECT_EQ(error(), "");
  directory_.write("lab/teacher/model.safetensors", "another teacher");
  EXPECT_THAT(error(), HasSubstr("another content of pair.teacher"));
}

TEST_F(Files, AreOneProcessesAtATime) {
  const StudyFiles files(out(), request_);
  EXPECT_NE(error(), "");
}

TEST_F(Files, NothingThatIsThereIsTouched) {
  request_.pair.reset();
  EXPECT_THAT(error(), HasSubstr("no study is there"));
  request_.pair = laboratory_pair(directory_.path() / "lab");
  std::filesystem::create_directories(out());
  directory_.write("study/mine", "");
  EXPECT_THAT(error(), HasSubstr("exists already"));
  std::filesystem::remove(out() / "mine");
  directory_.write("study/study.json.partial-1", "{");  // of a process that was killed
  EXPECT_EQ(error(), "");
  EXPECT_FALSE(std::filesystem::exists(out() / "study.json.partial-1"));
}

}  // namespace
}  // namespace routeopd::lab
