// The plan of a run with a device: what lives there, part by part, and what stays on the host. It is made
// where there is no such device, too.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/run/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "device/pretend_device.h"
#include "routeopd/formats/weight_table.h"
#include "routeopd/train/learner.h"
#include "testing_errors.h"
#include "train/run_testing.h"

namespace routeopd::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Plan plan_of(const train::Recipe& recipe) {
  const train::Inputs inputs = train::tiny_inputs(recipe);
  train::RunPrompts prompts;
  prompts.student = inputs.student.config;
  prompts.real_ids = inputs.real_ids;
  for (const train::TeacherInput& teacher : inputs.teachers) prompts.teachers.push_back(teacher.config);
  prompts.prompts = inputs.prompts;
  return plan_run(recipe, prompts);
}

std::map<std::string, std::int64_t> parts_of(const std::vector<MemoryPart>& parts) {
  std::map<std::string, std::int64_t> all;
  for (const MemoryPart& part : parts) all[part.name] = part.bytes;
  return all;
}

TEST(DevicePlan, TheLearnersPartsMoveThere) {
  train::Recipe recipe = train::tiny_recipe("nowhere");
  const Plan here = plan_of(recipe);
  EXPECT_TRUE(here.device_memory.empty());
  EXPECT_EQ(here.device_total_bytes(), 0);
  recipe.student.device = "cuda";
  const Plan there = plan_of(recipe);
  auto all = parts_of(here.memory), host = parts_of(there.memory), device = parts_of(there.device_memory);
  for (const char* name : {"gradients", "AdamW", "activations"}) {
    EXPECT_EQ(device[name], all[name]) << name;
    EXPECT_EQ(host.count(name), 0U) << name;
  }
  EXPECT_EQ(device["student"], all["student"]);
  EXPECT_EQ(host["student"], all["student"]) << "the copy that engines and checkpoints read";
  EXPECT_EQ(host["keys and values, rollout"], all["keys and values, rollout"]);
  EXPECT_GT(device["rows of the head"], 0);
  EXPECT_EQ(device.count("teacher's head"), 0U);
}

TEST(DevicePlan, CountsWhatAnArmNeedsThere) {
  train::Recipe recipe = train::tiny_recipe("nowhere", "full_rkl");
  recipe.student.device = "cuda";
  recipe.student.dtype = train::Dtype::kBfloat16;
  const formats::ModelConfig teacher = formats::read_model_config(tiny("teacher"));
  auto device = parts_of(plan_of(recipe).device_memory);
  EXPECT_EQ(device["teacher's head"], 4 * teacher.vocab_size * teacher.hidden_size);
  EXPECT_GT(device["logits"], 0);
  EXPECT_GT(device["student, bfloat16"], 0);
  recipe.rollout.student_values = train::StudentValues::kLearner;
  EXPECT_GT(parts_of(plan_of(recipe).device_memory)["learner's values"], 0);
}

// Weights, gradients of the two tables and moments, against what the device holds: each takes whole pages
// there.
TEST(DevicePlan, CountsWhatTheDeviceHolds) {
  train::Recipe recipe = train::tiny_recipe("nowhere");
  recipe.student.device = "pretend";
  auto device = parts_of(plan_of(recipe).device_memory);
  train::Inputs inputs = train::tiny_inputs(recipe);
  const std::int64_t before = pretend_counts().bytes;
  const train::Learner learner(inputs.student, {}, inputs.real_ids, recipe);
  const std::int64_t tables = 4 * inputs.student.embed_VH.numel();
  const std::int64_t planned = device["student"] + device["AdamW"] + tables;
  const auto tensors = static_cast<std::int64_t>(4 * model::parameters(inputs.student).size() + 1);
  EXPECT_GE(pretend_counts().bytes - before, planned);
  EXPECT_LT(pretend_counts().bytes - before, planned + 4096 * tensors);
}

TEST(DevicePlan, IsPrintedPartByPartAndRefusedByTheDevicesMemory) {
  train::Recipe recipe = train::tiny_recipe("nowhere");
  EXPECT_THAT(plan_text(plan_of(recipe), recipe),
              AllOf(HasSubstr("\nMemory\n"), Not(HasSubstr("of the host"))));
  recipe.student.device = "cuda:1";
  Plan plan = plan_of(recipe);
  EXPECT_THAT(plan_text(plan, recipe),
              AllOf(HasSubstr("\nMemory of the host\n"), HasSubstr("\nMemory of cuda:1\n"),
                    HasSubstr("AdamW"), HasSubstr("the free memory is not known")));
  EXPECT_EQ(plan_json(plan)["device_total_bytes"], plan.device_total_bytes());
  EXPECT_EQ(plan_json(plan)["device_memory"]["gradients"], 4 * plan.student_parameters);
  plan.available_bytes = 0;
  EXPECT_EQ(error_of([&] { check_memory(plan); }), "") << "not known: not refused";
  plan.device_available_bytes = plan.device_total_bytes() - 1;
  EXPECT_FALSE(plan.fits());
  EXPECT_THAT(error_of([&] { check_memory(plan); }), HasSubstr("the learner needs"));
  EXPECT_THAT(plan_text(plan, recipe), HasSubstr("[student] dtype = \"bfloat16\""));
}

}  // namespace
}  // namespace routeopd::run
