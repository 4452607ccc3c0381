// A run that is stopped and resumed against one that never stopped: the same weights, moments, routes and
// metrics, bit for bit.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <utility>

#include "routeopd/base/interrupt.h"
#include "run_testing.h"

namespace routeopd::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Six prompts, four per step: a pass over the data ends inside every second step.
Recipe long_recipe(const fs::path& out, const std::string& arm) {
  Recipe recipe = tiny_recipe(out, arm);
  recipe.train.steps = 13;
  recipe.train.minibatches = 2;
  recipe.checkpoint.every = 100;
  return recipe;
}

// The same run twice, under two names.
std::pair<Recipe, Recipe> two_recipes(const TemporaryDirectory& directory, std::int64_t steps,
                                      std::int64_t checkpoint_every = 100) {
  Recipe whole = long_recipe(directory.path() / "whole", "routeopd");
  whole.train.steps = steps;
  whole.checkpoint.every = checkpoint_every;
  Recipe parts = whole;
  parts.out = (directory.path() / "parts").string();
  return {whole, parts};
}

// Trains until `step` steps are done, then stops as Ctrl-C would.
void run_until(const Recipe& recipe, std::int64_t step, Start start = Start::kNew) {
  catch_interrupts();
  Inputs inputs = tiny_inputs(recipe);
  EXPECT_THROW(train(
                   recipe, inputs,
                   [&](const StepMetrics& metrics) {
                     if (metrics.step == step) std::raise(SIGINT);
                   },
                   start),
               Interrupted);
  catch_interrupts();  // forgets that one
}

void run_on(const Recipe& recipe) {
  Inputs inputs = tiny_inputs(recipe);
  train(recipe, inputs, {}, Start::kResume);
}

void expect_equal_runs(const fs::path& a, const fs::path& b, std::int64_t step) {
  EXPECT_EQ(metrics_of(a), metrics_of(b));
  EXPECT_EQ(std::ssize(metrics_of(a)), step);
  EXPECT_EQ(bytes_in(a / "rollouts.jsonl"), bytes_in(b / "rollouts.jsonl"));
  for (const char* file : {"model.safetensors", "state/optimizer.safetensors", "state/state.json"}) {
    const fs::path name = fs::path(fmt::format("checkpoints/step_{}", step)) / file;
    ASSERT_FALSE(bytes_in(a / name).empty()) << name;
    EXPECT_EQ(bytes_in(a / name), bytes_in(b / name)) << name;
  }
}

class Resume : public ::testing::TestWithParam<const char*> {
 protected:
  TemporaryDirectory directory_;
};

TEST_P(Resume, TenStepsFurtherAreTheSameBits) {
  const Recipe whole = long_recipe(directory_.path() / "whole", GetParam());
  const Recipe parts = long_recipe(directory_.path() / "parts", GetParam());
  run(whole);
  run_until(parts, 3);
  run_on(parts);
  expect_equal_runs(whole.out, parts.out, 13);
}

INSTANTIATE_TEST_SUITE_P(Arms, Resume, ::testing::Values("routeopd", "sampled_rkl", "union_rkl", "sft"),
                         [](const auto& arm) { return std::string(arm.param); });

TEST(ResumeRun, InBfloat16AndWithRecomputation) {
  const TemporaryDirectory directory;
  Recipe whole = long_recipe(directory.path() / "whole", "routeopd");
  whole.student.dtype = Dtype::kBfloat16;
  whole.train.recompute = true;
  whole.train.steps = 6;
  Recipe parts = whole;
  parts.out = (directory.path() / "parts").string();
  run(whole);
  run_until(parts, 2);
  run_on(parts);
  expect_equal_runs(whole.out, parts.out, 6);
}

// Nothing of a step's old values outlives it: in bfloat16 too they are those of the weights that were saved.
TEST(ResumeRun, WithOldValuesOfTheLearner) {
  for (const char* arm : {"routeopd", "sampled_rkl", "rank_matched"}) {
    for (const StudentValues values : {StudentValues::kEngine, StudentValues::kLearner}) {
      const TemporaryDirectory directory;
      Recipe whole = long_recipe(directory.path() / "whole", arm);
      whole.student.dtype = Dtype::kBfloat16;
      whole.rollout.old_scores = OldScores::kLearner;
      whole.rollout.student_values = values;
      if (std::string(arm) == "sampled_rkl") whole.rollout.rollout_correction = RolloutCorrection::kTruncate;
      whole.train.epochs = 2;
      whole.train.steps = 5;
      Recipe parts = whole;
      parts.out = (directory.path() / "parts").string();
      run(whole);
      run_until(parts, 2);
      run_on(parts);
      expect_equal_runs(whole.out, parts.out, 5);
    }
  }
}

// Killed: lines of steps that no checkpoint holds, the last one cut.
TEST(ResumeRun, LinesAfterTheCheckpointAreWrittenAnew) {
  const TemporaryDirectory directory;
  const auto [whole, parts] = two_recipes(directory, 6);
  run(whole);
  run_until(parts, 2);
  const fs::path lines = fs::path(parts.out) / "metrics.jsonl";
  std::ofstream(lines, std::ios::app) << R"({"step":3,"loss":0.5})" << "\n" << R"({"step":4,"lo)";
  run_on(parts);
  expect_equal_runs(whole.out, parts.out, 6);
}

TEST(ResumeRun, TakesTheNewestCheckpointThatVerifies) {
  const TemporaryDirectory directory;
  const auto [whole, parts] = two_recipes(directory, 6, /*checkpoint_every=*/2);
  run(whole);
  run_until(parts, 4);
  // One byte of the moments differs: the weights would load, and the run would go another way.
  const fs::path moments = fs::path(parts.out) / "checkpoints/step_4/state/optimizer.safetensors";
  std::string bytes = bytes_in(moments);
  bytes[bytes.size() - 7] ^= 1;
  std::ofstream(moments, std::ios::binary) << bytes;
  run_on(parts);
  expect_equal_runs(whole.out, parts.out, 6);
  EXPECT_TRUE(fs::exists(fs::path(parts.out) / "checkpoints/step_4.damaged"));
  EXPECT_THAT(bytes_in(fs::path(parts.out) / "log.txt"), HasSubstr("checkpoint of step 4 does not verify"));
}

TEST(ResumeRun, SaysWhenNoCheckpointVerifies) {
  const TemporaryDirectory directory;
  const Recipe recipe = long_recipe(directory.path() / "run", "routeopd");
  run_until(recipe, 2);
  const fs::path checkpoint = fs::path(recipe.out) / "checkpoints/step_2";
  fs::resize_file(checkpoint / "model.safetensors", 100);
  EXPECT_THAT(error_of([&] { run_on(recipe); }),
              HasSubstr("model.safetensors: has 100 bytes; the manifest says"));
  fs::remove(checkpoint / "model.safetensors");
  EXPECT_THAT(error_of([&] { run_on(recipe); }), HasSubstr("model.safetensors: is missing"));
  fs::remove(checkpoint / "state/manifest.json");
  EXPECT_THAT(error_of([&] { run_on(recipe); }), HasSubstr("no checkpoint verifies"));
  EXPECT_TRUE(fs::exists(checkpoint)) << "nothing is renamed when nothing is resumed";
  EXPECT_EQ(metrics_of(recipe.out).size(), 2U);
}

TEST(ResumeRun, WithoutACheckpointItBeginsAgain) {
  const TemporaryDirectory directory;
  const auto [whole, parts] = two_recipes(directory, 3);
  run(whole);
  run_until(parts, 1);
  fs::remove_all(fs::path(parts.out) / "checkpoints");
  run_on(parts);
  expect_equal_runs(whole.out, parts.out, 3);
  Recipe fresh = whole;
  fresh.out = (directory.path() / "fresh").string();
  run_on(fresh);
  expect_equal_runs(whole.out, fresh.out, 3);
}

TEST(ResumeRun, AFinishedRunHasNothingToDo) {
  const TemporaryDirectory directory;
  Recipe recipe = long_recipe(directory.path() / "run", "routeopd");
  recipe.train.steps = 2;
  run(recipe);
  const std::string before = bytes_in(fs::path(recipe.out) / "metrics.jsonl");
  run_on(recipe);
  EXPECT_EQ(bytes_in(fs::path(recipe.out) / "metrics.jsonl"), before);
}

TEST(ResumeRun, RefusesAnotherRecipeButForMoreSteps) {
  const TemporaryDirectory directory;
  Recipe recipe = long_recipe(directory.path() / "run", "routeopd");
  recipe.train.steps = 2;
  run(recipe);
  Recipe other = recipe;
  other.objective.m = 3;
  EXPECT_THAT(error_of([&] { run_on(other); }), HasSubstr("objective.m differs from the recipe"));
  other = recipe;
  other.optimizer.lr = 2e-3;
  EXPECT_THAT(error_of([&] { run_on(other); }), HasSubstr("optimizer.lr differs"));
  recipe.train.steps = 4;
  run_on(recipe);
  EXPECT_EQ(metrics_of(recipe.out).size(), 4U);
}

TEST(ResumeRun, ARunThatIsUnderWayIsLeftAlone) {
  const TemporaryDirectory directory;
  Recipe recipe = long_recipe(directory.path() / "run", "routeopd");
  recipe.train.steps = 2;
  Inputs inputs = tiny_inputs(recipe);
  std::string refused;
  train(recipe, inputs, [&](const StepMetrics& metrics) {
    if (metrics.step == 1) refused = error_of([&] { run_on(recipe); });
  });
  EXPECT_THAT(refused, HasSubstr("another process works there"));
  EXPECT_EQ(metrics_of(recipe.out).size(), 2U);
}

TEST(ResumeRun, RefusesFewerStepsThanAreDone) {
  const TemporaryDirectory directory;
  Recipe recipe = long_recipe(directory.path() / "run", "routeopd");
  recipe.train.steps = 3;
  run(recipe);
  const std::string before = bytes_in(fs::path(recipe.out) / "recipe.toml");
  recipe.train.steps = 2;
  EXPECT_THAT(error_of([&] { run_on(recipe); }), HasSubstr("3 steps are done, and [train] steps is 2"));
  EXPECT_EQ(bytes_in(fs::path(recipe.out) / "recipe.toml"), before);
}

// A line in the middle that cannot be read is nothing to cut at: whole lines follow it.
TEST(ResumeRun, RefusesLinesThatCannotBeReadAndChangesNothing) {
  const TemporaryDirectory directory;
  const Recipe recipe = long_recipe(directory.path() / "run", "routeopd");
  run_until(recipe, 3);
  const fs::path lines = fs::path(recipe.out) / "metrics.jsonl";
  const std::string whole = bytes_in(lines);
  for (const std::string& bad : {"{" + whole,
                                 R"({"step":-1})"
                                 "\n" +
                                     whole,
                                 R"({"loss":1})"
                                 "\n" +
                                     whole}) {
    std::ofstream(lines, std::ios::binary) << bad;
    EXPECT_THAT(error_of([&] { run_on(recipe); }), HasSubstr("line 1 has no step"));
    EXPECT_EQ(bytes_in(lines), bad);
  }
}

TEST(ResumeRun, ACheckpointUnderAnothersNameDoesNotVerify) {
  const TemporaryDirectory directory;
  const auto [whole, parts] = two_recipes(directory, 5);
  run(whole);
  run_until(parts, 2);
  const fs::path checkpoints = fs::path(parts.out) / "checkpoints";
  fs::copy(checkpoints / "step_2", checkpoints / "step_4", fs::copy_options::recursive);
  fs::create_directory(checkpoints / "step_9.partial-1");
  fs::create_directory(checkpoints / "step_007");  // nobody's
  run_on(parts);
  expect_equal_runs(whole.out, parts.out, 5);
  EXPECT_TRUE(fs::exists(checkpoints / "step_4.damaged"));
  EXPECT_FALSE(fs::exists(checkpoints / "step_9.partial-1"));
  EXPECT_TRUE(fs::exists(checkpoints / "step_007"));
}

TEST(ResumeRun, AnEmptyManifestDoesNotVerify) {
  const TemporaryDirectory directory;
  const Recipe recipe = long_recipe(directory.path() / "run", "routeopd");
  run_until(recipe, 2);
  std::ofstream(fs::path(recipe.out) / "checkpoints/step_2/state/manifest.json") << R"({"files":{}})";
  EXPECT_THAT(error_of([&] { run_on(recipe); }), HasSubstr("config.json is not in it"));
}

TEST(ResumeRun, RefusesAnotherTeacherUnderTheSameName) {
  const TemporaryDirectory directory;
  Recipe recipe = long_recipe(directory.path() / "run", "routeopd");
  fs::copy(tiny("teacher"), directory.path() / "teacher", fs::copy_options::recursive);
  recipe.teacher.path = (directory.path() / "teacher").string();
  run_until(recipe, 2);
  const std::string before = bytes_in(fs::path(recipe.out) / "metrics.jsonl");
  const fs::path weights = directory.path() / "teacher/model.safetensors";
  std::string bytes = bytes_in(weights);
  bytes[bytes.size() - 3] ^= 1;
  std::ofstream(weights, std::ios::binary) << bytes;
  EXPECT_THAT(error_of([&] { run_on(recipe); }), HasSubstr("other teacher weights"));
  EXPECT_EQ(bytes_in(fs::path(recipe.out) / "metrics.jsonl"), before);
}

// Bad steps in a row are counted across the stop.
TEST(ResumeRun, BadStepsAreCarriedOver) {
  const TemporaryDirectory directory;
  Recipe recipe = long_recipe(directory.path() / "run", "routeopd");
  recipe.train.max_bad_steps = 4;
  const auto train_badly = [&](std::int64_t until, Start start) {
    catch_interrupts();
    Inputs inputs = tiny_inputs(recipe);
    inputs.teachers.front().model->norm_H.fill_(std::numeric_limits<float>::quiet_NaN());
    const auto watch = [&](const StepMetrics& metrics) {
      if (metrics.step == until) std::raise(SIGINT);
    };
    train(recipe, inputs, watch, start);
  };
  EXPECT_THROW(train_badly(3, Start::kNew), Interrupted);
  EXPECT_THAT(error_of([&] { train_badly(100, Start::kResume); }), HasSubstr("step 5: 5 steps in a row"));
  catch_interrupts();
}

}  // namespace
}  // namespace routeopd::train
