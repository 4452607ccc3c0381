// The plan of a run on the tiny pair: what each arm keeps, and what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/run/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "routeopd/formats/model_config.h"
#include "testing_errors.h"
#include "tiny_models.h"

namespace routeopd::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int32_t kRealIds = 90;
constexpr std::int64_t kStates = 4 * 2 * 12;  // prompts per step, responses per prompt, tokens

train::Recipe recipe_of(const Json& objective) {
  train::Recipe recipe;
  recipe.student.path = tiny("student").string();
  recipe.teacher.path = tiny("teacher").string();
  recipe.rollout.prompts_per_step = 4;
  recipe.rollout.n = 2;
  recipe.rollout.max_new_tokens = 12;
  recipe.objective = routing::objective_from(objective);
  return recipe;
}

train::RunPrompts tiny_prompts(const train::Recipe& recipe) {
  train::RunPrompts prompts;
  prompts.student = formats::read_model_config(recipe.student.path);
  for (const train::RunTeacher& teacher : recipe.run_teachers())
    prompts.teachers.push_back(formats::read_model_config(teacher.section->path));
  prompts.real_ids = kRealIds;
  prompts.prompts.resize(6);
  for (Prompt& prompt : prompts.prompts) {
    prompt.ids = {3, 40, 7};
    prompt.response_ids = {5, 9, 1};
  }
  return prompts;
}

std::int64_t part_of(const train::Recipe& recipe, const std::string& name) {
  const Plan plan = plan_run(recipe, tiny_prompts(recipe));
  for (const MemoryPart& part : plan.memory)
    if (part.name == name) return part.bytes;
  return 0;
}

TEST(Plan, CountsTheSupportOfArmsThatKeepIt) {
  constexpr std::int64_t kTwice = 2 * 7 * 4;  // seven arrays of four bytes, joined from parts
  EXPECT_EQ(part_of(recipe_of({{"arm", "routeopd"}, {"k", 8}}), "support"), 0);
  EXPECT_EQ(part_of(recipe_of({{"arm", "routeopd"}, {"k", 8}, {"pairs", "exact"}}), "support"),
            kStates * 16 * kTwice);
  EXPECT_EQ(part_of(recipe_of({{"arm", "union_rkl"}, {"k", 8}}), "support"), kStates * 16 * kTwice);
  EXPECT_EQ(part_of(recipe_of({{"arm", "union_fkl"}, {"k", 64}}), "support"), kStates * kRealIds * kTwice)
      << "two top-k have no more than all ids";
  EXPECT_EQ(part_of(recipe_of({{"arm", "union_fkl"}, {"k", "full"}}), "support"),
            kStates * kRealIds * kTwice);
  EXPECT_EQ(part_of(recipe_of({{"arm", "full_rkl"}, {"k", 8}}), "support"), 0);
}

TEST(Plan, AStudentOnServersHasNoEngineHere) {
  train::Recipe recipe = recipe_of({{"arm", "routeopd"}, {"k", 8}});
  const std::int64_t weights = part_of(recipe, "student");
  for (const char* part : {"student, for the engine", "keys and values, rollout"}) {
    recipe.rollout.engine = train::EngineKind::kLocal;
    EXPECT_GT(part_of(recipe, part), 0) << part;
    recipe.rollout.engine = train::EngineKind::kVllm;
    EXPECT_EQ(part_of(recipe, part), 0) << part;
  }
  EXPECT_EQ(part_of(recipe, "student"), weights) << "they learn here";
}

// Weights on a server take no memory here; those of every teacher that is here do.
TEST(Plan, CountsEveryTeacherAndWhatItReads) {
  const train::Recipe one = recipe_of({{"arm", "routeopd"}, {"k", 8}});
  train::Recipe two = one;
  two.teacher = {};
  two.teachers["a"].path = two.teachers["b"].path = tiny("teacher").string();
  const std::int64_t weights = part_of(one, "teacher"), panels = part_of(one, "teacher, for the engine");
  EXPECT_GT(weights, 0);
  for (const char* name : {"a", "b"}) {
    EXPECT_EQ(part_of(two, fmt::format("teacher {}", name)), weights);
    EXPECT_EQ(part_of(two, fmt::format("teacher {}, for the engine", name)), panels);
  }
  EXPECT_EQ(part_of(two, "keys and values, scoring"), part_of(one, "keys and values, scoring"))
      << "one after the other";
  two.teachers["b"].engine = train::EngineKind::kServe;
  EXPECT_EQ(part_of(two, "teacher b"), 0);
  EXPECT_EQ(part_of(two, "teacher a"), weights);
  train::RunPrompts prompts = tiny_prompts(one);
  const std::int64_t plain = plan_run(one, prompts).teacher_tokens;
  for (Prompt& prompt : prompts.prompts) prompt.teacher_ids = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(plan_run(one, prompts).teacher_tokens, plain + 4 * 5)
      << "five more tokens for each prompt of a step";
}

TEST(Plan, CountsTheProbesStates) {
  train::Recipe recipe = recipe_of({{"arm", "routeopd"}, {"k", 8}});
  EXPECT_EQ(part_of(recipe, "probe"), 0);
  recipe.probe.every = 1;
  const std::int64_t few = part_of(recipe, "probe");
  EXPECT_GT(few, 6 * 12 * 16 * 7 * 4) << "six prompts of twelve tokens, their supports";
  recipe.objective = routing::objective_from({{"arm", "routeopd"}, {"k", "full"}});
  EXPECT_GT(part_of(recipe, "probe"), 3 * few);
  recipe.probe.bank = "bank.safetensors";
  const std::int64_t parameters = plan_run(recipe, tiny_prompts(recipe)).student_parameters;
  EXPECT_EQ(part_of(recipe, "probe"), 8 * parameters);
}

TEST(Plan, AsksTheOptimizerForItsBytes) {
  const train::Recipe recipe = recipe_of({{"arm", "routeopd"}});
  const Plan plan = plan_run(recipe, tiny_prompts(recipe));
  EXPECT_EQ(part_of(recipe, "AdamW"), 8 * plan.student_parameters);
  EXPECT_GT(plan.available_bytes, 0);
  EXPECT_TRUE(plan.fits());
}

TEST(Plan, WhatDoesNotFitIsRefusedWithTheNumbers) {
  Plan plan;
  plan.memory = {{"student", 3'000'000'000, ""}, {"support", 40'000'000'000, ""}};
  plan.available_bytes = 43'000'000'000;
  check_memory(plan);
  plan.available_bytes = 42'000'000'000;
  EXPECT_THAT(error_of([&] { check_memory(plan); }),
              AllOf(HasSubstr("43.0 GB"), HasSubstr("40.0 GB of it for support"),
                    HasSubstr("42.0 GB are free"), HasSubstr("--allow-overcommit")));
  plan.available_bytes = 0;  // the system does not tell
  check_memory(plan);
}

TEST(Plan, HugeNumbersDoNotOverflow) {
  train::Recipe recipe = recipe_of({{"arm", "union_rkl"}, {"k", "full"}});
  recipe.rollout.n = 256;
  recipe.rollout.prompts_per_step = 1 << 24;
  recipe.rollout.max_new_tokens = 1'000'000'000;
  recipe.rollout.kv_memory = 1e6;
  const Plan plan = plan_run(recipe, tiny_prompts(recipe));
  for (const MemoryPart& part : plan.memory) EXPECT_GT(part.bytes, 0) << part.name;
  EXPECT_EQ(plan.total_bytes(), 1'000'000'000'000'000'000);
  EXPECT_THAT(error_of([&] { check_memory(plan); }), HasSubstr("for captured states"));
}

}  // namespace
}  // namespace routeopd::run
