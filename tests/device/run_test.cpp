// Whole runs whose learner is on the pretend device: engines, probes and checkpoints stay on the
// host, and read the weights that an update brought back.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "device/pretend_device.h"
#include "probe/bank_testing.h"
#include "routeopd/probe/bank_file.h"
#include "routeopd/run/watched_run.h"
#include "routeopd/train/learner_device.h"
#include "routeopd/train/stages.h"
#include "testing_errors.h"
#include "train/run_testing.h"

namespace routeopd::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

Recipe device_recipe(const fs::path& out, const std::string& arm = "routeopd") {
  Recipe recipe = tiny_recipe(out, arm);
  recipe.student.device = "pretend";
  recipe.train.minibatches = 2;
  return recipe;
}

std::string text_of_file(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

double largest_error(const model::Model& a, const model::Model& b) {
  double worst = 0;
  const auto left = model::parameters(a), right = model::parameters(b);
  for (std::size_t i = 0; i < left.size(); ++i)
    worst = std::max(worst, relative_error(left[i].tensor.detach(), right[i].tensor.detach()));
  return worst;
}

model::Model checkpoint_of(const Recipe& recipe, std::int64_t step) {
  return model::load_model(fs::path(recipe.out) / "checkpoints" / fmt::format("step_{}", step));
}

// Its heads are ATen's and the CPU's are not: the first step agrees to rounding, and begins from equal
// rollouts.
TEST(DeviceRun, BeginsAsTheCpusAndLeavesAHostsCheckpoint) {
  for (const char* arm : {"routeopd", "sampled_rkl", "full_rkl", "sft"}) {
    const TemporaryDirectory directory;
    Recipe there = device_recipe(directory.path() / "there", arm);
    there.train.steps = 1;
    Recipe here = there;
    here.student.device = "cpu";
    here.out = (directory.path() / "here").string();
    Inputs inputs = tiny_inputs(there);
    train(there, inputs);
    run(here);
    const auto got = metrics_of(there.out), expected = metrics_of(here.out);
    EXPECT_EQ(text_of_file(fs::path(there.out) / "rollouts.jsonl"),
              text_of_file(fs::path(here.out) / "rollouts.jsonl"));
    EXPECT_NEAR(got[0]["loss"].get<double>(), expected[0]["loss"].get<double>(),
                1e-5 * std::abs(expected[0]["loss"].get<double>()))
        << arm;
    const model::Model saved = checkpoint_of(there, 1);
    EXPECT_EQ(largest_error(saved, inputs.student), 0) << "the host's copy is that of the device, " << arm;
    EXPECT_LT(largest_error(saved, checkpoint_of(here, 1)), 1e-5) << arm;
    EXPECT_GT(largest_error(saved, model::load_model(tiny("student"))), 1e-4) << "it learns, " << arm;
    EXPECT_THAT(text_of_file(fs::path(there.out) / "log.txt"), HasSubstr("learner on pretend:0"));
  }
}

// Every later step writes with the weights of the step before: the engine's copy is brought over.
TEST(DeviceRun, WritesWithTheWeightsThatItLearnt) {
  const TemporaryDirectory directory;
  Recipe recipe = device_recipe(directory.path() / "run");
  recipe.optimizer.lr = 0.05;
  Inputs inputs = tiny_inputs(recipe);
  Stages stages(recipe, inputs);
  for (std::int64_t step = 0; step < 3; ++step) {
    Rollout rollout = stages.write(inputs.prompts, step);
    const auto fresh = make_exact_engine(inputs.student, inputs.real_ids);
    Rollout again = rollout;
    engine::rescore(*fresh, again, 0);
    EXPECT_EQ(again.logprob_N, rollout.logprob_N) << "step " << step;
    const Scores scores = stages.score(rollout);
    const Routes routes = stages.route(rollout, scores);
    EXPECT_EQ(stages.learn(stages.experience(rollout, scores, routes)).updates, 2);
  }
}

// The learner's own values for the routes, read on the device, are the CPU's.
TEST(DeviceRun, RoutesByTheLearnersOwnValues) {
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16}) {
    for (const Json& k : {Json(8), Json("full")}) {
      const TemporaryDirectory directory;
      Recipe recipe = device_recipe(directory.path() / "run");
      recipe.objective = routing::objective_from({{"arm", "routeopd"}, {"k", k}});
      recipe.student.dtype = dtype;
      recipe.rollout.student_values = StudentValues::kLearner;
      std::vector<Routes> both;
      for (const char* device : {"cpu", "pretend"}) {
        recipe.student.device = device;
        Inputs inputs = tiny_inputs(recipe);
        Stages stages(recipe, inputs);
        Rollout rollout = stages.write(inputs.prompts, 0);
        const Scores scores = stages.score(rollout);
        both.push_back(stages.route(rollout, scores));
        const UpdateResult update = stages.learn(stages.experience(rollout, scores, both.back()));
        EXPECT_EQ(update.updates, 2);
        EXPECT_LT(std::sqrt(update.gap.logprob_squares), dtype == Dtype::kFloat32 ? 1e-4 : 1.0);
      }
      EXPECT_EQ(both[1].source_NM, both[0].source_NM);
      EXPECT_EQ(both[1].destination_NM, both[0].destination_NM);
      for (std::size_t n = 0; n < both[0].mass_N.size(); ++n)
        EXPECT_NEAR(both[1].mass_N[n], both[0].mass_N[n], 1e-5F);
    }
  }
}

TEST(DeviceRun, IsResumedToTheSameBitsAndOnAnotherDevice) {
  const TemporaryDirectory directory;
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16}) {
    const std::string type = dtype == Dtype::kFloat32 ? "float32" : "bfloat16";
    Recipe whole = device_recipe(directory.path() / ("whole_" + type));
    whole.student.dtype = dtype;
    whole.optimizer.schedule = ScheduleKind::kConstant;  // which does not ask how many steps there will be
    whole.optimizer.warmup = 0;
    run(whole);
    Recipe parts = whole;
    parts.out = (directory.path() / ("parts_" + type)).string();
    parts.train.steps = 2;
    run(parts);
    parts.train.steps = 4;
    Inputs inputs = tiny_inputs(parts);
    train(parts, inputs, {}, Start::kResume);
    EXPECT_EQ(metrics_of(parts.out), metrics_of(whole.out)) << type;
    EXPECT_EQ(largest_error(checkpoint_of(parts, 4), checkpoint_of(whole, 4)), 0) << type;

    parts.student.device = "cpu";
    parts.train.steps = 5;
    Inputs again = tiny_inputs(parts);
    EXPECT_EQ(train(parts, again, {}, Start::kResume), 1);
    EXPECT_THAT(text_of_file(fs::path(parts.out) / "log.txt"),
                AllOf(HasSubstr("learner on pretend:0"), HasSubstr("learner on cpu")));
  }
}

// Probes, of states and of a bank, read the weights that the device learnt.
TEST(DeviceRun, IsProbed) {
  const TemporaryDirectory directory;
  probe::Bank bank = probe::tiny_bank(probe::TinyPair(), 8);
  probe::write_bank(bank, directory.path() / "bank");
  const tokenizer::Tokenizer tokenizer{fs::path(ROUTEOPD_TEST_DATA).parent_path() / "lab" / "base"};
  for (const bool with_bank : {false, true}) {
    Recipe recipe = device_recipe(directory.path() / (with_bank ? "bank_run" : "run"));
    recipe.optimizer.lr = 0.01;
    recipe.probe.every = 2;
    recipe.probe.states = 12;
    if (with_bank) recipe.probe.bank = (directory.path() / "bank").string();
    Inputs inputs = tiny_inputs(recipe);
    const routeopd::run::SuiteEvaluator evaluator(recipe, tokenizer);
    routeopd::run::WatchedRun watched(recipe, inputs, evaluator);
    EXPECT_EQ(watched.train(Start::kNew), 4);
    formats::JsonLines lines((fs::path(recipe.out) / "probe.jsonl").string());
    std::vector<double> masses;
    while (const auto line = lines.next()) masses.push_back((*line)["mass"].get<double>());
    ASSERT_EQ(masses.size(), 3U);
    EXPECT_NE(masses[1], masses[0]) << "the probe reads new weights";
    EXPECT_NE(masses[2], masses[1]);
  }
}

TEST(Device, IsRefusedInOneSentenceWhereItIsNot) {
  const TemporaryDirectory directory;
  Recipe recipe = device_recipe(directory.path() / "run");
  for (const char* name : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "cpu:0", "", "pretend:999"}) {
    recipe.student.device = name;
    EXPECT_THAT(error_of([&] { check_recipe(recipe); }),
                HasSubstr("[student] device: expected \"cpu\", \"cuda\" or \"cuda:N\""))
        << name;
  }
  recipe.student.device = "pretend:1";
  Inputs inputs = tiny_inputs(recipe);
  EXPECT_THAT(error_of([&] { train(recipe, inputs); }),
              HasSubstr("\"pretend:1\" is not there, LibTorch finds 1 of its kind"));
  EXPECT_FALSE(fs::exists(recipe.out)) << "before anything of the run is made";
  EXPECT_EQ(device_named("pretend"), pretend_device());
  EXPECT_EQ(device_named("cpu"), at::Device(at::kCPU));
  if (at::hasCUDA()) GTEST_SKIP() << "this LibTorch has CUDA";
  EXPECT_THAT(error_of([&] { device_named("cuda"); }), HasSubstr("a LibTorch without it"));
}

}  // namespace
}  // namespace routeopd::train
