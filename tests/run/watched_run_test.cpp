// A run that is watched, on engines that are not the local one.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/run/watched_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "engine/scripted_engine.h"
#include "probe/bank_testing.h"
#include "routeopd/probe/bank_file.h"
#include "train/run_testing.h"

namespace routeopd::run {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct WatchedScript : ::testing::Test {
  TemporaryDirectory directory;
  train::Recipe recipe = [this] {
    train::Recipe watched = train::tiny_recipe(directory.path() / "run");
    watched.probe.every = 2;
    watched.probe.states = 12;
    return watched;
  }();
  train::Inputs inputs = [this] {
    train::Inputs own = train::tiny_inputs(recipe);
    own.teachers.front().model.reset();
    return own;
  }();
  tokenizer::Tokenizer tokenizer{fs::path(ROUTEOPD_TEST_DATA).parent_path() / "lab" / "base"};
  SuiteEvaluator evaluator{recipe, tokenizer};

  static train::Engines scripted() {
    return {.student = std::make_unique<engine::ScriptedEngine>(90, 11),
            .teachers = train::one_teacher(std::make_unique<engine::ScriptedEngine>(90, 12))};
  }
};

TEST_F(WatchedScript, IsProbedOnStatesOfItsOwn) {
  WatchedRun watched(recipe, inputs, evaluator, scripted());
  EXPECT_EQ(watched.train(train::Start::kNew), 4);
  formats::JsonLines lines((fs::path(recipe.out) / "probe.jsonl").string());
  std::vector<std::int64_t> steps;
  while (const auto line = lines.next()) {
    steps.push_back((*line)["step"].get<std::int64_t>());
    EXPECT_GT((*line)["mass"].get<double>(), 0.05);
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{0, 2, 4}));
}

TEST_F(WatchedScript, IsRefusedByNameBeforeItsStartIsProbed) {
  probe::Bank bank = probe::tiny_bank(probe::TinyPair(), 8);
  probe::write_bank(bank, directory.path() / "bank");
  recipe.probe.bank = (directory.path() / "bank").string();
  EXPECT_THAT(
      error_of([&] { WatchedRun(recipe, inputs, evaluator, scripted()); }),
      HasSubstr(
          "[probe] bank: fidelity and leakage need the teacher's LM head, which its engine (scripted)"));
  recipe.probe.bank.clear();
  recipe.objective = routing::objective_from({{"arm", "full_rkl"}});
  train::Engines engines = scripted();
  dynamic_cast<engine::ScriptedEngine&>(*engines.teachers.front().engine).spoil_answer =
      [](auto&, const auto&) { ADD_FAILURE() << "something ran"; };
  EXPECT_THAT(error_of([&] { WatchedRun(recipe, inputs, evaluator, std::move(engines)); }),
              HasSubstr("[objective] arm: full_rkl needs the teacher's hidden states"));
  EXPECT_FALSE(fs::exists(recipe.out));
}

}  // namespace
}  // namespace routeopd::run
