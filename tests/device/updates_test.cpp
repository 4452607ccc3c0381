// Twenty updates of every family of arms on the pretend device, beside those of the CPU with the same heads
// (ATen's). The device runs the CPU's kernels, so that a value, a loss and every weight are equal to the last
// bit.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/pretend_device.h"
#include "routeopd/model/decoder.h"
#include "train/old_values_testing.h"

namespace routeopd::train {
namespace {

struct Case {
  const char* name;
  const char* arm;
  Json objective = Json::object();
  Dtype dtype = Dtype::kFloat32;
  bool recompute = false;
  bool tied = true;
  OldScores old = OldScores::kRescore;
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

// A student with a head of its own, beside the tiny one, which has none.
model::Model untied_student() {
  formats::ModelConfig config = formats::read_model_config(tiny("student"));
  config.tie_word_embeddings = false;
  return model::random_model(config, 5);
}

// The same responses, scores and routes for every learner.
struct Work {
  explicit Work(const Case& one) : student(one.tied ? model::load_model(tiny("student")) : untied_student()) {
    const Json batch = tiny_json("batch.json");
    rollout = golden_rollout(batch, 0);
    recipe = golden_recipe(batch["settings"], one.arm, one.objective);
    recipe.student.dtype = one.dtype;
    recipe.rollout.old_scores = one.old;
    if (recipe.objective.loss == routing::Loss::kSampledRkl && one.old == OldScores::kLearner)
      recipe.rollout.rollout_correction = RolloutCorrection::kTruncate;
    recipe.train.steps = 10;
    recipe.train.minibatches = 2;
    recipe.train.micro_tokens = 24;  // several micro-batches in each
    recipe.train.recompute = one.recompute;
    if (recipe.sft()) return;
    engine::LocalEngine write(student, kIds), read(teacher, kIds);
    scores = engine::score_rollout(write, read, rollout,
                                   score_options(recipe.objective, rollout, true, recipe.seed, kIds));
    rollout.engine_logprob_N.clear();  // the golden batch has none of its own
    routes = route_rollout(rollout, scores, recipe.objective, recipe.seed,
                           {student.head_VH, teacher.head_VH, kIds});
  }

  Experience experience() const {
    return recipe.sft() ? Experience{.rollout = &rollout} : Experience{&rollout, &scores, &routes};
  }

  static constexpr std::int32_t kIds = 90;
  model::Model student;
  model::Model teacher = model::load_model(tiny("teacher"));
  Recipe recipe;
  Rollout rollout;
  Scores scores;
  Routes routes;
};

struct Learned {
  std::vector<double> numbers;  // of every step: loss, norm, capture error, gap
  at::Tensor weights, moments;  // each in one row, on the host
  std::int64_t updates = 0;
};

at::Tensor row_of(const std::vector<model::Parameter>& parameters) {
  std::vector<at::Tensor> all;
  for (const model::Parameter& parameter : parameters)
    all.push_back(parameter.tensor.detach().to(at::kCPU).flatten());
  return at::cat(all).clone();
}

Learned learn(const Work& work, const std::string& device) {
  model::Model student = model::clone_model(work.student);
  Recipe recipe = work.recipe;
  recipe.student.device = device;
  Learner learner(student, work.teacher.head_VH, Work::kIds, recipe, ranks::alone(), model::Backend::kAten);
  Learned learned;
  for (std::int64_t step = 0; step < recipe.train.steps; ++step) {
    const UpdateResult update = learner.update(work.experience());
    learned.numbers.insert(learned.numbers.end(),
                           {update.loss, update.grad_norm, update.capture_error.value_or(-1),
                            update.gap.logprob_squares, update.gap.log_odds_squares});
    learned.updates += update.updates;
  }
  learned.weights = row_of(model::parameters(student));
  learned.moments = row_of(learner.optimizer().state());
  return learned;
}

class TwentyUpdates : public ::testing::TestWithParam<Case> {};

TEST_P(TwentyUpdates, OnTheDeviceEqualTheCpus) {
  const Work work(GetParam());
  const PretendCounts before = pretend_counts();
  const Learned expected = learn(work, "cpu");
  ASSERT_EQ(pretend_counts().kernels, before.kernels) << "the CPU's learner does not touch the device";
  const Learned got = learn(work, "pretend");
  EXPECT_EQ(got.updates, 20);
  EXPECT_EQ(got.numbers, expected.numbers);
  EXPECT_TRUE(at::equal(got.weights, expected.weights))
      << "largest difference " << (got.weights - expected.weights).abs().max().item<double>();
  EXPECT_TRUE(at::equal(got.moments, expected.moments));
  EXPECT_FALSE(at::equal(got.weights, row_of(model::parameters(work.student)))) << "something is learnt";
  EXPECT_GT(pretend_counts().kernels, before.kernels + 1000) << "on the device";
  EXPECT_GT(pretend_counts().fused_attention, before.fused_attention) << "by its own attention";
  EXPECT_EQ(pretend_counts().bytes, before.bytes) << "nothing of it stays there";
}

INSTANTIATE_TEST_SUITE_P(
    Arms, TwentyUpdates,
    ::testing::Values(
        Case{"pairs", "routeopd"},
        Case{.name = "pairs_bfloat16", .arm = "routeopd", .dtype = Dtype::kBfloat16},
        Case{.name = "pairs_recomputed", .arm = "routeopd", .recompute = true},
        Case{.name = "pairs_untied", .arm = "routeopd", .tied = false, .old = OldScores::kLearner},
        Case{.name = "exact",
             .arm = "routeopd",
             .objective = {{"pairs", "exact"}},
             .old = OldScores::kLearner},
        Case{.name = "exact_bfloat16",
             .arm = "routeopd",
             .objective = {{"pairs", "exact"}},
             .dtype = Dtype::kBfloat16},
        Case{"fixed_mid", "fixed_mid"}, Case{"union_rkl", "union_rkl"},
        Case{.name = "union_fkl_untied", .arm = "union_fkl", .tied = false},
        Case{.name = "sampled_rkl", .arm = "sampled_rkl", .old = OldScores::kLearner},
        Case{.name = "sampled_rkl_untied_bfloat16",
             .arm = "sampled_rkl",
             .dtype = Dtype::kBfloat16,
             .recompute = true,
             .tied = false,
             .old = OldScores::kLearner},
        Case{.name = "source_only", .arm = "source_only", .old = OldScores::kLearner},
        Case{"destination_only", "destination_only"}, Case{"full_rkl", "full_rkl"},
        Case{.name = "full_rkl_bfloat16", .arm = "full_rkl", .dtype = Dtype::kBfloat16},
        Case{"full_fkl", "full_fkl"}, Case{.name = "full_fkl_untied", .arm = "full_fkl", .tied = false},
        Case{"sft", "sft"}, Case{.name = "sft_bfloat16", .arm = "sft", .dtype = Dtype::kBfloat16}),
    [](const auto& one) { return std::string(one.param.name); });

// The heads that the CPU has of its own differ from ATen's in rounding alone, and so does a run on a device
// from one on the CPU: the first gradient, per tensor.
TEST(DeviceGradient, IsThatOfTheCpusOwnHeads) {
  for (const char* arm : {"routeopd", "union_rkl", "sampled_rkl", "source_only", "full_rkl", "sft"}) {
    const Work work({.name = arm, .arm = arm});
    std::vector<std::vector<at::Tensor>> all;
    std::vector<objective::EngineGap> gaps;
    for (const char* device : {"cpu", "pretend"}) {
      model::Model student = model::clone_model(work.student);
      Recipe recipe = work.recipe;
      recipe.student.device = device;
      Learner learner(student, work.teacher.head_VH, Work::kIds, recipe);
      const BatchResult result = learner.loss_gradients().accumulate(
          work.experience(), 0, work.rollout.responses_B.size(), {.first = true});
      gaps.push_back(result.gap);
      all.emplace_back();
      for (const at::Tensor& gradient : learner.loss_gradients().gradients())
        all.back().push_back(gradient.to(at::kCPU).clone());
    }
    for (std::size_t i = 0; i < all[0].size(); ++i)
      EXPECT_LT(relative_error(all[1][i], all[0][i]), 1e-5) << arm << ", tensor " << i;
    EXPECT_EQ(gaps[1].logprobs, gaps[0].logprobs) << arm;
    EXPECT_EQ(gaps[1].log_odds, gaps[0].log_odds) << arm;
    EXPECT_LT(std::sqrt(gaps[1].logprob_squares + gaps[1].log_odds_squares), 1e-4) << arm;
  }
}

// So are the old values that are kept without a gradient.
TEST(DeviceOldValues, AreThoseOfTheCpusOwnHeads) {
  const auto near = [](const std::vector<float>& got, const std::vector<float>& expected) {
    return ::testing::Value(got, ::testing::Pointwise(::testing::FloatNear(1e-5F), expected));
  };
  for (const char* arm : {"routeopd", "exact", "sampled_rkl", "source_only", "destination_only"}) {
    const bool exact = std::string_view(arm) == "exact";
    const Work work(exact ? Case{.name = arm, .arm = "routeopd", .objective = {{"pairs", "exact"}}}
                          : Case{arm, arm});
    std::vector<OldValues> both;
    for (const char* device : {"cpu", "pretend"}) {
      model::Model student = model::clone_model(work.student);
      Recipe recipe = work.recipe;
      recipe.student.device = device;
      Learner learner(student, work.teacher.head_VH, Work::kIds, recipe);
      OldValues& values = both.emplace_back();
      values.pair_NM.resize(work.routes.old_NM.size());
      values.support_L.resize(work.routes.support.old_logits_L.size());
      values.logprob_N.resize(work.rollout.logprob_N.size());
      learner.loss_gradients().record(work.experience(), 0, work.rollout.responses_B.size(), values);
    }
    EXPECT_TRUE(near(both[1].pair_NM, both[0].pair_NM)) << arm;
    EXPECT_TRUE(near(both[1].support_L, both[0].support_L)) << arm;
    EXPECT_TRUE(near(both[1].logprob_N, both[0].logprob_N)) << arm;
  }
}

// What is frozen of a step crosses once per micro-batch: the packed tokens in one copy, ids and
// coefficients of the head's rows beside them. No number is asked for token by token.
TEST(DeviceCrossings, DoNotGrowWithTheTokens) {
  for (const char* arm : {"routeopd", "union_rkl", "sampled_rkl", "source_only", "full_rkl", "sft"}) {
    const Work work({.name = arm, .arm = arm});
    std::vector<std::int64_t> crossings;
    for (const std::size_t responses : {std::size_t{1}, work.rollout.responses_B.size()}) {
      model::Model student = model::clone_model(work.student);
      Recipe recipe = work.recipe;
      recipe.student.device = "pretend";
      recipe.train.micro_tokens = 1000;
      Learner learner(student, work.teacher.head_VH, Work::kIds, recipe);
      const PretendCounts before = pretend_counts();
      learner.loss_gradients().accumulate(work.experience(), 0, responses, {.first = true});
      const PretendCounts after = pretend_counts();
      crossings.push_back(after.to_device + after.to_host - before.to_device - before.to_host);
    }
    EXPECT_EQ(crossings[1], crossings[0]) << arm;
    EXPECT_LE(crossings[1], 20) << arm;
  }
}

// Padding inside groups, shared stems: the fused operator gives what a softmax over a mask gives.
TEST(DeviceAttention, EqualsASoftmaxOverAMask) {
  const Work work({.name = "routeopd", .arm = "routeopd"});
  const model::ResponseBatch here = model::pack_responses(work.rollout, 0, work.rollout.responses_B.size());
  const model::ResponseBatch there = model::on_device(here, pretend_device());
  const std::int64_t tokens = here.packed.tokens();
  const auto values = [&](std::int64_t heads, double phase) {
    return at::sin(at::arange(tokens * heads * 8, at::kFloat) + phase).view({tokens, heads, 8});
  };
  const at::Tensor q = values(4, 0), k = values(2, 1), v = values(2, 2);
  const at::Tensor got = model::packed_attention(there.packed, q.to(pretend_device()), k.to(pretend_device()),
                                                 v.to(pretend_device()))
                             .to(at::kCPU);
  EXPECT_TRUE(at::equal(got, model::packed_attention(here.packed, q, k, v)));

  std::vector<at::Tensor> outputs;
  for (const model::SequenceGroup& group : here.packed.groups) {
    const auto rows = [&](const at::Tensor& x) {
      return x.index_select(0, group.token_of_slot_BL)
          .view({group.sequences, group.longest, x.size(1), 8})
          .repeat_interleave(4 / x.size(1), 2)
          .transpose(1, 2)
          .to(at::kDouble);
    };
    const at::Tensor later = at::ones({group.longest, group.longest}, at::kBool).triu(1);
    const at::Tensor scores = at::matmul(rows(q), rows(k).transpose(2, 3)) / std::sqrt(8.0);
    const at::Tensor out = at::matmul(at::softmax(scores.masked_fill(later, -1e30), -1), rows(v));
    outputs.push_back(out.transpose(1, 2).reshape({-1, 32}).index_select(0, group.slot_of_token));
  }
  const at::Tensor expected = at::cat(outputs).index_select(0, here.packed.place_in_groups_T);
  EXPECT_LT(relative_error(got.to(at::kDouble), expected), 1e-6);
}

}  // namespace
}  // namespace routeopd::train
