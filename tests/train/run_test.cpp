// A whole run on the tiny pair: the files it leaves, and that it leaves the same ones again.
// SPDX-License-Identifier: Apache-2.0
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>
#include <set>

#include "routeopd/base/interrupt.h"
#include "routeopd/formats/json_lines.h"
#include "routeopd/train/schedule.h"
#include "routeopd/train/stages.h"
#include "run_testing.h"

namespace routeopd::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class EveryArmRuns : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryArmRuns, TwiceWithTheSameBytes) {
  const TemporaryDirectory directory;
  const auto a = directory.path() / "a", b = directory.path() / "b";
  run(tiny_recipe(a, GetParam()));
  run(tiny_recipe(b, GetParam()));
  EXPECT_EQ(metrics_of(a), metrics_of(b));
  ASSERT_EQ(metrics_of(a).size(), 4U);
  for (const char* file :
       {"checkpoints/step_4/model.safetensors", "checkpoints/step_4/state/optimizer.safetensors",
        "checkpoints/step_4/state/state.json"}) {
    EXPECT_EQ(bytes_in(a / file), bytes_in(b / file)) << file;
    EXPECT_FALSE(bytes_in(a / file).empty()) << file;
  }
  EXPECT_EQ(bytes_in(a / "rollouts.jsonl"), bytes_in(b / "rollouts.jsonl"));
  EXPECT_NE(bytes_in(a / "checkpoints/step_4/model.safetensors"),
            bytes_in(tiny("student") / "model.safetensors"))
      << "nothing was learnt";
  EXPECT_TRUE(std::filesystem::exists(a / "checkpoints/step_3"));
  EXPECT_FALSE(std::filesystem::exists(a / "checkpoints/step_2")) << "keep = 2";
}

INSTANTIATE_TEST_SUITE_P(Main, EveryArmRuns,
                         ::testing::Values("routeopd", "sampled_rkl", "full_rkl", "union_rkl", "rank_matched",
                                           "sft"),
                         [](const auto& arm) { return std::string(arm.param); });

TEST(Run, TemperatureReachesTheStudent) {
  Recipe recipe = tiny_recipe("unused");
  recipe.rollout.old_scores = OldScores::kRescore;
  std::vector<double> logprobs;
  for (const double temperature : {0.2, 1.0, 3.0}) {
    recipe.rollout.temperature = temperature;
    Inputs inputs = tiny_inputs(recipe);
    const Rollout rollout = Stages(recipe, inputs).write(inputs.prompts, 0);
    logprobs.push_back(std::accumulate(rollout.logprob_N.begin(), rollout.logprob_N.end(), 0.0) /
                       static_cast<double>(rollout.states()));
  }
  EXPECT_GT(logprobs[0], logprobs[1] + 0.1);
  EXPECT_GT(logprobs[1], logprobs[2] + 0.1);
}

TEST(Run, RoutesAreTheSameTwice) {
  const Recipe recipe = tiny_recipe("unused");
  std::vector<Routes> twice;
  for (int i = 0; i < 2; ++i) {
    Inputs inputs = tiny_inputs(recipe);
    Stages stages(recipe, inputs);
    Rollout rollout = stages.write(inputs.prompts, 3);
    const Scores scores = stages.score(rollout);
    twice.push_back(stages.route(rollout, scores));
    EXPECT_NE(stages.write(inputs.prompts, 4).id_N, rollout.id_N) << "a step with the numbers of another";
  }
  EXPECT_EQ(twice[0].source_NM, twice[1].source_NM);
  EXPECT_EQ(twice[0].destination_NM, twice[1].destination_NM);
  EXPECT_EQ(twice[0].target_NM, twice[1].target_NM);
  EXPECT_EQ(twice[0].old_NM, twice[1].old_NM);
  EXPECT_EQ(twice[0].mass_N, twice[1].mass_N);
  EXPECT_GT(twice[0].source_NM.size(), 100U);
}

TEST(Run, MicroBatchSizeChangesNoLoss) {
  const TemporaryDirectory directory;
  std::vector<double> losses;
  for (const std::int64_t tokens : {100000, 1, 40}) {
    Recipe recipe = tiny_recipe(directory.path() / std::to_string(tokens));
    recipe.train.micro_tokens = tokens;
    recipe.train.steps = 1;
    run(recipe);
    losses.push_back(metrics_of(recipe.out).front()["loss"]);
  }
  EXPECT_NEAR(losses[1], losses[0], 1e-6 * losses[0]);
  EXPECT_NEAR(losses[2], losses[0], 1e-6 * losses[0]);
}

TEST(Run, MinibatchesAndEpochsSeeAChangedStudent) {
  const TemporaryDirectory directory;
  Recipe recipe = tiny_recipe(directory.path() / "run");
  recipe.train.minibatches = 3;
  recipe.train.epochs = 2;
  run(recipe);
  EXPECT_EQ(metrics_of(recipe.out).size(), 4U);
  const Json state = Json::parse(bytes_in(directory.path() / "run/checkpoints/step_4/state/state.json"));
  EXPECT_EQ(state["updates"], 4 * 3 * 2);
}

// Over several steps with large updates: scoring sees the new weights, and every step has other prompts and
// numbers.
TEST(Run, RescoreAndCaptureAgree) {
  const TemporaryDirectory directory;
  Recipe captured = tiny_recipe(directory.path() / "captured"),
         again = tiny_recipe(directory.path() / "again");
  again.rollout.old_scores = OldScores::kRescore;
  run(captured);
  run(again);
  const std::vector<Json> a = metrics_of(captured.out), b = metrics_of(again.out);
  // Later, updates that differ in their last bits may lead apart.
  for (std::size_t step = 0; step < 2; ++step) {
    EXPECT_NEAR(a[step]["loss"].get<double>(), b[step]["loss"].get<double>(),
                1e-3 * a[step]["loss"].get<double>());
    EXPECT_NEAR(a[step]["mass"].get<double>(), b[step]["mass"].get<double>(), 1e-4);
    EXPECT_LT(a[step]["capture_error"].get<double>(), 1e-4);
    EXPECT_LT(b[step]["capture_error"].get<double>(), 1e-4) << "the engine scores with old weights";
  }
}

TEST(Run, MetricsHaveWhatIsPromised) {
  const TemporaryDirectory directory;
  const Recipe recipe = tiny_recipe(directory.path() / "run");
  run(recipe);
  formats::JsonLines lines(recipe.out + "/metrics.jsonl");
  const Json first = *lines.next();
  for (const char* name : {"step",
                           "tokens",
                           "loss",
                           "lr",
                           "grad_norm",
                           "mass",
                           "concentration",
                           "budget",
                           "saturated",
                           "routed_share",
                           "student_mass",
                           "teacher_mass",
                           "coverage",
                           "entropy",
                           "teacher_entropy",
                           "policy_entropy",
                           "response_tokens",
                           "clip_ratio",
                           "capture_error",
                           "engine_gap",
                           "validity",
                           "teacher_calls",
                           "time",
                           "memory"}) {
    EXPECT_TRUE(first.contains(name)) << name;
  }
  EXPECT_EQ(first["validity"]["valid"], first["tokens"]);
  EXPECT_GT(first["mass"].get<double>(), 0);
  EXPECT_GT(first["policy_entropy"].get<double>(), first["entropy"].get<double>()) << "a lower bound";
  EXPECT_LE(first["student_mass"].get<double>(), 1.0 + 1e-6);
}

// A loss that reads no routes learns the same without them, whichever way the student's values are had.
TEST(Run, WithoutDiagnosticsTheUpdatesAreTheSameBits) {
  const TemporaryDirectory directory;
  for (const char* arm : {"sampled_rkl", "full_rkl"}) {
    for (const OldScores old : {OldScores::kCapture, OldScores::kRescore}) {
      std::vector<std::vector<Json>> metrics;
      std::vector<std::string> weights;
      for (const bool diagnostics : {true, false}) {
        Recipe recipe = tiny_recipe(
            directory.path() / fmt::format("{}-{}-{}", arm, static_cast<int>(old), diagnostics), arm);
        recipe.rollout.old_scores = old;
        recipe.train.diagnostics = diagnostics;
        Inputs inputs = tiny_inputs(recipe);
        train(recipe, inputs);
        metrics.push_back(metrics_of(recipe.out));
        weights.push_back(bytes_in(std::filesystem::path(recipe.out) /
                                   fmt::format("checkpoints/step_{}/model.safetensors", recipe.train.steps)));
      }
      EXPECT_EQ(weights[0], weights[1]) << arm;
      ASSERT_EQ(metrics[0].size(), metrics[1].size());
      for (std::size_t i = 0; i < metrics[0].size(); ++i) {
        const Json &with = metrics[0][i], &without = metrics[1][i];
        for (const char* same :
             {"loss", "grad_norm", "tokens", "policy_entropy", "teacher_tokens", "floored"})
          EXPECT_EQ(with[same], without[same]) << arm << " " << same;
        for (const char* unknown : {"mass", "routed_share", "student_mass", "teacher_mass", "entropy",
                                    "teacher_entropy", "concentration", "budget", "saturated", "coverage"}) {
          EXPECT_TRUE(without[unknown].is_null()) << arm << " " << unknown;
        }
        EXPECT_FALSE(with["mass"].is_null());
        EXPECT_EQ(without["validity"], (Json{{"valid", with["validity"]["valid"]}}));
      }
    }
  }
}

// Routes are left out where nothing reads them, and only there.
TEST(Run, WithoutDiagnosticsNothingIsCapturedOrRouted) {
  for (const char* arm : {"sampled_rkl", "full_fkl", "routeopd", "union_rkl"}) {
    Recipe recipe = tiny_recipe("unused", arm);
    recipe.train.diagnostics = false;
    const bool lean = !recipe.objective.reads_routes();
    Inputs inputs = tiny_inputs(recipe);
    Stages stages(recipe, inputs);
    Rollout rollout = stages.write(inputs.prompts, 0);
    const Scores scores = stages.score(rollout);
    const Routes routes = stages.route(rollout, scores);
    EXPECT_EQ(rollout.top_ids_NK.empty(), lean) << arm;
    EXPECT_EQ(rollout.hidden_NH.empty(), lean) << arm;
    EXPECT_EQ(scores.teacher_ids_NJ.empty(), lean) << arm;
    EXPECT_EQ(scores.hidden_NX.empty(), std::string(arm) != "full_fkl") << arm;
    EXPECT_EQ(routes.mass_N.empty(), lean) << arm;
    EXPECT_EQ(std::ssize(routes.validity_N), rollout.states()) << arm;
  }
}

TEST(Run, ResolvedRecipeReadsBackEqual) {
  const TemporaryDirectory directory;
  Recipe recipe = tiny_recipe(directory.path() / "run", "reversed");
  recipe.optimizer.lr = 1.0 / 3e5;
  recipe.data.prompt_template = "Q \"{problem}\"\nA:";
  const auto file = directory.write("recipe.toml", recipe_text(recipe));
  EXPECT_EQ(recipe_text(read_recipe(file.string())), recipe_text(recipe));
  const Recipe other = read_recipe(file.string(), {"objective.arm=fixed_low", "train.steps=7", "seed=3"});
  EXPECT_EQ(other.train.steps, 7);
  EXPECT_EQ(other.seed, 3U);
  EXPECT_NE(recipe_text(other).find("budget = \"fixed_low\""), std::string::npos)
      << "an arm brings its preset";
}

TEST(Run, SaysWhatIsWrong) {
  const TemporaryDirectory directory;
  const auto recipe_error = [&](const std::string& text) {
    const auto file = directory.write("bad.toml", text);
    return error_of([&] { read_recipe(file.string()); });
  };
  EXPECT_THAT(recipe_error("[rollout]\ntemprature = 1"), HasSubstr("did you mean temperature?"));
  EXPECT_THAT(recipe_error("[rolout]\nn = 1"),
              HasSubstr("unknown section [rolout]; did you mean [rollout]?"));
  EXPECT_THAT(recipe_error("sed = 1"), HasSubstr("did you mean seed?"));
  EXPECT_THAT(recipe_error("[rollout]\nn = 0"), HasSubstr("[rollout] n: expected a whole number from 1"));
  EXPECT_THAT(recipe_error("[objective]\narm = \"routeop\""), HasSubstr("did you mean routeopd?"));
  EXPECT_THAT(recipe_error("[rollout\nn = 0"), HasSubstr("not TOML"));

  Recipe greedy = tiny_recipe(directory.path() / "greedy");
  greedy.rollout.top_p = 0.9;
  greedy.rollout.old_scores = OldScores::kCapture;
  EXPECT_THAT(error_of([&] { run(greedy); }), HasSubstr("old_scores"));
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "greedy"));

  const Recipe twice = tiny_recipe(directory.path() / "twice");
  run(twice);
  const std::string before = bytes_in(directory.path() / "twice/metrics.jsonl");
  EXPECT_THAT(error_of([&] { run(twice); }), HasSubstr("exists already; nothing was overwritten"));
  EXPECT_EQ(bytes_in(directory.path() / "twice/metrics.jsonl"), before);

  Recipe few = tiny_recipe(directory.path() / "few");
  few.rollout.prompts_per_step = 7;
  EXPECT_THAT(error_of([&] { run(few); }), HasSubstr("prompts_per_step: 7 exceeds the 6 prompts"));
}

TEST(Run, TeacherEqualToStudentIsSaidInWords) {
  const TemporaryDirectory directory;
  Recipe recipe = tiny_recipe(directory.path() / "same");
  recipe.teacher.path = recipe.student.path;
  EXPECT_THAT(error_of([&] { run(recipe); }), HasSubstr("the same weights, so M = 0 and the loss is zero"));
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "same"));
}

// Every state invalid: nothing is learnt, and nothing may move; weight decay would.
TEST(Run, TeacherWithoutAWholeAnswerStopsTheRun) {
  const TemporaryDirectory directory;
  for (const char* arm : {"routeopd", "sampled_rkl", "full_rkl", "union_rkl"}) {
    Recipe recipe = tiny_recipe(directory.path() / arm, arm);
    recipe.train.steps = 10;
    recipe.train.max_bad_steps = 2;
    recipe.checkpoint.every = 0;
    Inputs inputs = tiny_inputs(recipe);
    inputs.teachers.front().model->norm_H.fill_(std::numeric_limits<float>::quiet_NaN());
    EXPECT_THAT(error_of([&] { train(recipe, inputs); }),
                AllOf(HasSubstr("step 3: 3 steps in a row made no update"), HasSubstr("(non_finite)")))
        << arm;
    EXPECT_TRUE(at::equal(inputs.student.embed_VH.detach(), model::load_model(tiny("student")).embed_VH))
        << arm;
    const model::Model saved = model::load_model(std::filesystem::path(recipe.out) / "checkpoints/step_3");
    EXPECT_TRUE(at::equal(saved.embed_VH, inputs.student.embed_VH)) << arm;
    const std::vector<Json> metrics = metrics_of(recipe.out);
    ASSERT_EQ(metrics.size(), 3U);
    EXPECT_EQ(metrics[1]["skipped_updates"], 1);
    for (const char* unknown : {"loss", "grad_norm", "mass", "entropy", "student_mass", "routed_share"})
      EXPECT_TRUE(metrics[1][unknown].is_null()) << unknown;
    EXPECT_EQ(metrics[1]["validity"]["non_finite"], metrics[1]["tokens"]);
    EXPECT_THAT(bytes_in(std::filesystem::path(recipe.out) / "log.txt"),
                HasSubstr("states skipped (non_finite), 1 updates skipped (no valid state)"));
  }
}

// A teacher that is not finite after one token: the states there are skipped and counted, the others are
// learnt from.
TEST(Run, StatesWithoutAFiniteTeacherAreSkipped) {
  const TemporaryDirectory directory;
  const Recipe recipe = tiny_recipe(directory.path() / "run");
  Inputs inputs = tiny_inputs(recipe);
  for (Prompt& prompt : inputs.prompts) prompt.ids.back() = 7 + static_cast<std::int32_t>(prompt.number % 2);
  inputs.teachers.front().model->embed_VH =
      inputs.teachers.front().model->embed_VH.clone();  // the head stays whole
  inputs.teachers.front().model->embed_VH[8].fill_(std::numeric_limits<float>::quiet_NaN());
  train(recipe, inputs);
  for (const Json& step : metrics_of(recipe.out)) {
    EXPECT_GT(step["validity"]["non_finite"].get<int>(), 0);
    EXPECT_GT(step["validity"]["valid"].get<int>(), 0);
    EXPECT_EQ(step["skipped_updates"], 0);
    EXPECT_TRUE(step["loss"].is_number());
  }
}

TEST(Run, WeightsThatOverflowAreNotSaved) {
  const TemporaryDirectory directory;
  Recipe recipe = tiny_recipe(directory.path() / "run");
  recipe.optimizer.lr = 1e38;
  recipe.train.steps = 1;
  EXPECT_THAT(error_of([&] { run(recipe); }), HasSubstr("is not finite after step 1"));
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "run/checkpoints/step_1"));
}

// A forward that overflows once: that step changes nothing, and the run continues where the weights allow it.
TEST(Run, AStepThatIsNotFiniteIsSkipped) {
  const TemporaryDirectory directory;
  for (const char* arm : {"routeopd", "sampled_rkl", "sft"}) {
    Recipe recipe = tiny_recipe(directory.path() / arm, arm);
    recipe.train.steps = 3;
    recipe.rollout.old_scores = OldScores::kRescore;
    Inputs inputs = tiny_inputs(recipe);
    const at::Tensor spoilt = inputs.student.layers[0].up_FH;
    at::Tensor whole;
    const auto spoil = [&](const StepMetrics& step_done) {
      const c10::NoGradGuard no_grad;
      if (step_done.step == 1) {
        whole = spoilt.clone();
        spoilt.fill_(std::numeric_limits<float>::infinity());
      }
      if (step_done.step == 2) {
        EXPECT_TRUE(at::all(spoilt == std::numeric_limits<float>::infinity()).item<bool>());
        spoilt.copy_(whole);
      }
    };
    recipe.checkpoint.every = 0;
    train(recipe, inputs, spoil);
    const std::vector<Json> metrics = metrics_of(recipe.out);
    ASSERT_EQ(metrics.size(), 3U);
    EXPECT_EQ(metrics[0]["skipped_updates"], 0) << arm;
    EXPECT_EQ(metrics[1]["skipped_updates"], 1) << arm;
    EXPECT_EQ(metrics[2]["skipped_updates"], 0) << arm;
    const Json state =
        Json::parse(bytes_in(std::filesystem::path(recipe.out) / "checkpoints/step_3/state/state.json"));
    EXPECT_EQ(state["updates"], 2) << arm;
    EXPECT_EQ(state["scheduled"], 3) << arm;
    for (const model::Parameter& parameter : model::parameters(inputs.student))
      EXPECT_TRUE(parameter.tensor.isfinite().all().item<bool>()) << parameter.name;
  }
}

TEST(Run, IdsAndLengthsAreCheckedFirst) {
  const TemporaryDirectory directory;
  for (const char* arm : {"routeopd", "sft"}) {
    const Recipe recipe = tiny_recipe(directory.path() / arm, arm);
    Inputs inputs = tiny_inputs(recipe);
    inputs.prompts[2].ids[1] = 92;  // a padded row of the embedding
    EXPECT_THAT(error_of([&] { train(recipe, inputs); }),
                HasSubstr("prompt 2 has id 92, outside the tokenizer's 90"));
    inputs.prompts[2].ids.assign(130, 3);
    EXPECT_THAT(error_of([&] { train(recipe, inputs); }),
                HasSubstr("passes the 128 positions of the student"));
    inputs.prompts[2].ids = {3};
    inputs.prompts[3].response_ids = {5, 94};
    if (recipe.sft()) {
      EXPECT_THAT(error_of([&] { train(recipe, inputs); }), HasSubstr("the response to 3 has id 94"));
    }
    EXPECT_FALSE(std::filesystem::exists(recipe.out));
  }
}

// Six prompts, five per step: the second step ends one pass over the data and begins the next.
TEST(Run, APromptThatComesTwiceInAStepIsAnsweredTwice) {
  const TemporaryDirectory directory;
  Recipe recipe = tiny_recipe(directory.path() / "run");
  recipe.data.shuffle = false;
  recipe.rollout.prompts_per_step = 5;
  recipe.train.steps = 6;
  Inputs inputs = tiny_inputs(recipe);
  for (Prompt& prompt : inputs.prompts) prompt.ids = inputs.prompts[0].ids;
  train(recipe, inputs);
  formats::JsonLines lines(recipe.out + "/rollouts.jsonl");
  std::map<std::int64_t, std::set<std::string>> texts;
  while (const auto line = lines.next())
    texts[(*line)["step"].get<std::int64_t>()].insert((*line)["ids"].dump());
  for (const auto& [step, different] : texts)
    EXPECT_GT(different.size(), 6U) << "of 10 responses in step " << step;
}

TEST(Schedule, WarmsUpAndFollowsTheCosine) {
  OptimizerSection optimizer;
  optimizer.lr = 2;
  optimizer.warmup = 0.03;
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 0, 100), 2.0 / 3);  // W = 3
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 2, 100), 2);
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 3, 100), 2);
  EXPECT_NEAR(learning_rate(optimizer, 3 + 97 / 2, 100), 1 + std::cos(std::numbers::pi * 48 / 97), 1e-12);
  EXPECT_GT(learning_rate(optimizer, 99, 100), 0);
  EXPECT_LT(learning_rate(optimizer, 99, 100), 0.01);
  optimizer.schedule = ScheduleKind::kConstant;
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 99, 100), 2);
}

TEST(PromptOrder, EveryPassHasEveryPromptInAnOrderOfItsOwn) {
  Recipe recipe;
  recipe.rollout.prompts_per_step = 4;
  const auto pass = [&](std::uint64_t seed, std::int64_t number) {
    recipe.seed = seed;
    PromptOrder order(12, recipe);
    std::vector<std::size_t> all;
    for (std::int64_t step = 3 * number; step < 3 * number + 3; ++step)
      for (const std::size_t place : order.step(step)) all.push_back(place);
    return all;
  };
  std::vector<std::size_t> sorted = pass(1, 0);
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(sorted[i], i);
  EXPECT_NE(pass(1, 0), pass(1, 1));
  EXPECT_NE(pass(1, 0), pass(2, 0));
  recipe.data.shuffle = false;
  EXPECT_EQ(pass(1, 1), sorted);
}

// The same function under other bytes: nothing but the rounding of two forwards is left to learn.
TEST(Run, TeacherThatIsTheStudentInOtherBytesIsSaidInWords) {
  const TemporaryDirectory directory;
  for (const char* arm : {"routeopd", "sampled_rkl", "full_rkl", "union_rkl"}) {
    const Recipe recipe = tiny_recipe(directory.path() / arm, arm);
    Inputs inputs = tiny_inputs(recipe);
    inputs.teachers.front().model = model::load_model(tiny("student"));
    inputs.teachers.front().model->embed_VH.slice(0, 90, 96).fill_(
        0.5);  // padded rows that take part in nothing
    EXPECT_THAT(error_of([&] { train(recipe, inputs); }), HasSubstr("agree at all")) << arm;
  }
}

TEST(Run, CtrlCSavesTheLastWholeStep) {
  const TemporaryDirectory directory;
  Recipe recipe = tiny_recipe(directory.path() / "run");
  recipe.train.steps = 1000;
  recipe.checkpoint.every = 0;
  catch_interrupts();
  Inputs inputs = tiny_inputs(recipe);
  EXPECT_THROW(train(recipe, inputs,
                     [](const StepMetrics& metrics) {
                       if (metrics.step == 3) std::raise(SIGINT);
                     }),
               Interrupted);
  catch_interrupts();  // forgets that one
  EXPECT_EQ(metrics_of(recipe.out).size(), 3U);
  const model::Model saved = model::load_model(directory.path() / "run/checkpoints/step_3");
  EXPECT_TRUE(at::equal(saved.embed_VH, inputs.student.embed_VH.detach()));
}

}  // namespace
}  // namespace routeopd::train
