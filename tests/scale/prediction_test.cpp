// Plans against arithmetic that is done here by hand, and the laws that every plan obeys.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/scale/prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "routeopd/formats/json_file.h"
#include "routeopd/formats/model_config.h"
#include "scale/scale_testing.h"
#include "testing_errors.h"

namespace routeopd::scale {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

formats::ModelConfig published(const std::string& name) {
  const std::string file = std::string(ROUTEOPD_TEST_DATA) + "/scale/configs/" + name + ".json";
  return formats::model_config_of(formats::read_json_object(file, 1 << 20));
}

TEST(Scale, ShapesAreThoseOfPublishedModels) {
  const ModelShape student = shape_of(published("deepseek_r1_distill_qwen_1_5b"), 2);
  // Per layer: queries and outputs 1536 x 1536, keys and values 1536 x 256, three of 1536 x 8960.
  EXPECT_EQ(student.body, 28 * (2 * 1536. * 1536 + 2 * 1536. * 256 + 3 * 1536. * 8960));
  EXPECT_EQ(student.parameters, 1777088000);
  EXPECT_EQ(student.head(), 1536. * 151936);
  EXPECT_EQ(student.kv_bytes(), 28 * 2 * 256 * 2);
  EXPECT_EQ(student.engine_bytes(), 2 * (1777088000 - 1536. * 151936)) << "the embedding is looked up";
  EXPECT_EQ(shape_of(published("deepseek_r1_distill_qwen_7b"), 2).parameters, 7615616512);
  EXPECT_EQ(shape_of(published("qwen3_1_7b_base"), 2).parameters, 1720574976);
  EXPECT_EQ(shape_of(published("qwen3_4b_base"), 2).parameters, 4022468096);
}

TEST(Scale, MemoryByPartIsPlainArithmetic) {
  const Prediction p = small_prediction();
  EXPECT_EQ(p.memory.bytes_of("student"), 4 * 5000);
  EXPECT_EQ(p.memory.bytes_of("gradients"), 4 * 5000);
  EXPECT_EQ(p.memory.bytes_of("optimizer"), 8 * 5000);
  EXPECT_EQ(p.memory.bytes_of("engine"), 4 * 5000);
  EXPECT_EQ(p.memory.bytes_of("teacher"), 4 * 5000);
  EXPECT_EQ(p.memory.bytes_of("activations"), 50 * (2 * 50) * 4) << "micro_tokens, two layers, floats";
  EXPECT_EQ(p.memory.bytes_of("head"), 50 * 4 * 12) << "four rows a state, twelve bytes a visit";
  EXPECT_EQ(p.memory.bytes_of("keys and values"), (2 * 2 * 10 * 4) * 8 * (4 + 2 * 6));
  EXPECT_EQ(p.memory.bytes_of("states"), 8 * 2 * 6 * (10 * 4 + 32 * 32));
  EXPECT_EQ(p.memory.host_bytes(), p.memory.bytes_of("states"));
  double sum = 0;
  for (const Part& part : p.memory.parts) sum += part.bytes;
  EXPECT_EQ(p.memory.device_bytes() + p.memory.host_bytes(), sum);
  EXPECT_TRUE(p.memory.fits());
}

TEST(Scale, ShardsRoundedCopiesAndRecomputingChangeTheirParts) {
  const Prediction sharded = small_prediction(4, true);
  EXPECT_EQ(sharded.memory.bytes_of("optimizer"), 8 * 5000 / 4);
  EXPECT_EQ(sharded.memory.bytes_of("student"), 4 * 5000 / 4 + 4 * (2 * 2000 + 1000));
  EXPECT_EQ(sharded.memory.bytes_of("teacher"), 4 * 5000) << "every device scores";
  Workload work = small_work();
  work.compute_bytes = 2;
  work.recompute = true;
  const Prediction p = predict(work, exact_assumptions(), small_device(), {});
  EXPECT_EQ(p.memory.bytes_of("student"), (4 + 2) * 5000);
  EXPECT_EQ(p.memory.bytes_of("activations"), 50 * (2 * 10 + 2 * 50) * 2);
  EXPECT_EQ(p.head.whole_logits_bytes, 50 * 100 * (2 + 4 + 4));
  work.head = Head::kDense;
  EXPECT_EQ(predict(work, exact_assumptions(), small_device(), {}).memory.bytes_of("head"),
            2 * 256 * 100 * 4);
}

TEST(Scale, KeysAndValuesGetWhatIsLeftAndResponsesWait) {
  Device device = small_device();
  const double others = small_prediction().memory.device_bytes() - small_prediction().memory.kv_given;
  constexpr double kPosition = 2 * 2 * 10 * 4, kOne = kPosition * (2 + 6);  // half of a shared prompt
  device.memory = others + 5 * kOne;
  const Prediction tight = predict(small_work(), exact_assumptions(), device, {});
  EXPECT_EQ(tight.memory.concurrent, 5);
  EXPECT_TRUE(tight.memory.fits());
  Assumptions slow = exact_assumptions();
  slow.decode_overhead =
      1;  // seconds: 11 responses of 6 tokens wait for 5 places, the last 5 take 6 forwards
  EXPECT_NEAR(
      predict(small_work(), slow, device, {}).stage_seconds("rollout") - tight.stage_seconds("rollout"),
      11 * 6 / 5. + 6, 1e-12);
  device.memory = others;
  EXPECT_FALSE(predict(small_work(), exact_assumptions(), device, {}).memory.fits())
      << "one longest response needs room";
  Workload bounded = small_work();
  bounded.kv_bytes = 3 * kOne;
  EXPECT_EQ(predict(bounded, exact_assumptions(), small_device(), {}).memory.bytes_of("keys and values"),
            3 * kOne);
}

// 8 prompts of 4 tokens, 16 responses of 6: 32 and 96 tokens.
constexpr double kAttention = 4 * 2 * 10 * (8 * 4 * 4 / 2. + 96 * 4 + 16 * 36 / 2.);

TEST(Scale, SecondsAreRooflines) {
  const Prediction p = small_prediction();
  EXPECT_NEAR(p.stage_seconds("score"), (2. * 4000 * 128 + kAttention + 2. * 1000 * 96) / 1e6, 1e-12);
  EXPECT_NEAR(p.stage_seconds("route"), 96 * 0.001, 1e-12);
  const double head = 96 * 4 * 10 * (4 + 8) / 1e6;  // bytes, which take longer than six operations
  EXPECT_NEAR(p.stage_seconds("learn"), 3 * (2. * 4000 * 128 + kAttention) / 1e6 + head + 28. * 5000 / 1e6,
              1e-12);
  double rollout = (2. * 4000 * 32 + 4 * 2 * 10 * (8 * 4 * 4 / 2.)) / 1e6;
  for (int t = 0; t < 6; ++t) {
    const double context = 4 + t + 0.5;
    const double operations = 16 * (2. * (4000 + 1000) + 4 * 2 * 10 * context);
    const double bytes = 4 * 5000 + 16 * context * 160;
    rollout += std::max(operations, bytes) / 1e6;
  }
  EXPECT_NEAR(p.stage_seconds("rollout"), rollout, 1e-12);
  EXPECT_EQ(p.stage_seconds("communication"), 0) << "alone";
}

TEST(Scale, OneSequenceIsBoundByMemoryAndEveryForwardHasItsOverhead) {
  Workload work = small_work();
  work.prompts = work.responses_per_prompt = 1;
  Assumptions assumptions = exact_assumptions();
  const double without = predict(work, assumptions, small_device(), {}).stage_seconds("rollout");
  double bytes = 0;
  for (int t = 0; t < 6; ++t) bytes += 4 * 5000 + (4 + t + 0.5) * 160;
  EXPECT_NEAR(without, (bytes + 2. * 4000 * 4 + 4 * 2 * 10 * 8) / 1e6, 1e-12);
  assumptions.decode_overhead = 0.25;
  EXPECT_NEAR(predict(work, assumptions, small_device(), {}).stage_seconds("rollout"), without + 6 * 0.25,
              1e-12);
}

TEST(Scale, DenseHeadsRecomputingEpochsAndForwardsCost) {
  Workload work = small_work();
  const auto learn = [&] {
    return predict(work, exact_assumptions(), small_device(), {}).stage_seconds("learn");
  };
  const double forward = (2. * 4000 * 128 + kAttention) / 1e6, adam = 28. * 5000 / 1e6;
  const double dense = 6. * 1000 * 96 / 1e6;
  work.head = Head::kDense;
  EXPECT_NEAR(learn(), 3 * forward + dense + adam, 1e-12);
  work.teacher_logits = true;
  EXPECT_NEAR(learn(), 3 * forward + dense + 2. * 1000 * 96 / 1e6 + adam, 1e-12);
  work.teacher_logits = false;
  work.recompute = true;
  work.epochs = 2;
  work.minibatches = 3;
  work.extra_forwards = 1;
  EXPECT_NEAR(learn(), 2 * (4 * forward + dense) + forward + 6 * adam, 1e-12);
  work.compute_bytes = 2;
  EXPECT_NEAR(learn(), (2 * (4 * forward + dense) + forward) / 2 + 6 * adam, 1e-12) << "bfloat16's peak";
}

TEST(Scale, CommunicationCountsWhatPassesALink) {
  // Four on one machine: 3/4 twice around; the pair head touches at most all 100 rows of the tied table.
  EXPECT_NEAR(small_prediction(4).stage_seconds("communication"), 2 * 0.75 * 4 * 5000 / 1e5, 1e-12);
  EXPECT_NEAR(small_prediction(8).stage_seconds("communication"), 2 * 0.875 * 4 * 5000 / 1e4, 1e-12)
      << "the network between machines";
  Workload work = small_work();
  work.student.vocabulary = 1e6;
  const Share share = share_of(work, exact_assumptions(), 4);
  const double body = work.student.parameters - work.student.tables();
  EXPECT_NEAR(sent_bytes(work, exact_assumptions(), {.gpus = 4}, share, Head::kPair),
              2 * 0.75 * 4 * (body + (96 * 4 + 128) * 10.), 1e-6)
      << "rows of 96 states and 128 tokens";
  EXPECT_NEAR(sent_bytes(work, exact_assumptions(), {.gpus = 4}, share, Head::kDense),
              2 * 0.75 * 4 * (body + 1e6 * 10), 1e-6);
  Workload untied = small_work();
  untied.student.tied = false;
  EXPECT_NEAR(sent_bytes(untied, exact_assumptions(), {.gpus = 4}, share_of(untied, exact_assumptions(), 4),
                         Head::kPair),
              2 * 0.75 * 4 * (5000 - 2 * 1000 + 2 * 100 * 10.), 1e-9)
      << "two tables, all rows of each";
  // Sharded: 32 tokens are one micro-batch. Weights twice for it and once for the engine; gradients once.
  EXPECT_NEAR(sent_bytes(small_work(), exact_assumptions(), {.gpus = 4, .sharded = true},
                         share_of(small_work(), exact_assumptions(), 4), Head::kPair),
              0.75 * 4 * 5000 * 3 + 0.75 * 4 * 5000, 1e-9);
}

TEST(Scale, TotalsAreSums) {
  for (const std::int64_t gpus : {1, 3, 24}) {
    const Prediction p = small_prediction(gpus);
    double seconds = 0;
    for (const Stage& stage : p.stages) seconds += stage.seconds;
    EXPECT_NEAR(p.step_seconds(), seconds, 1e-12);
    EXPECT_NEAR(p.hours(), 3 * seconds / 3600, 1e-12);
    EXPECT_NEAR(p.gpu_hours(), p.hours() * static_cast<double>(gpus), 1e-12);
    EXPECT_EQ(p.run_tokens(), 3 * 96);
  }
}

TEST(Scale, MoreDevicesNeverWorkLongerNorHoldMore) {
  Assumptions assumptions = exact_assumptions();
  assumptions.response_tokens = 3;
  for (const bool sharded : {false, true}) {
    Prediction last = predict(small_work(), assumptions, small_device(), {.gpus = 2, .sharded = sharded});
    for (std::int64_t gpus = 3; gpus <= 1024; ++gpus) {
      const Prediction p =
          predict(small_work(), assumptions, small_device(), {.gpus = gpus, .sharded = sharded});
      for (const char* stage : {"rollout", "score", "route", "learn"})
        ASSERT_LE(p.stage_seconds(stage), last.stage_seconds(stage)) << stage << " on " << gpus;
      ASSERT_LE(p.memory.device_bytes(), last.memory.device_bytes()) << gpus;
      ASSERT_TRUE(sharded || p.stage_seconds("communication") >= last.stage_seconds("communication")) << gpus;
      last = p;
    }
  }
  EXPECT_EQ(small_prediction(8).stage_seconds("learn"), small_prediction(1024).stage_seconds("learn"))
      << "there are eight prompts";
}

TEST(Scale, ArmsWithoutStagesHaveNone) {
  Workload sft = small_work();
  sft.writes = sft.routes = false;
  sft.teachers.clear();
  const Prediction p = predict(sft, exact_assumptions(), small_device(), {});
  ASSERT_EQ(p.stages.size(), 1U);
  EXPECT_EQ(p.stages[0].name, "learn");
  for (const char* part : {"engine", "teacher", "keys and values", "states"})
    EXPECT_EQ(p.memory.bytes_of(part), 0) << part;
  Workload served = small_work();
  served.writes_here = served.scores_here = false;
  const Prediction q = predict(served, exact_assumptions(), small_device(), {});
  EXPECT_EQ(q.stage_seconds("rollout") + q.stage_seconds("score"), 0);
  EXPECT_EQ(q.memory.bytes_of("engine") + q.memory.bytes_of("teacher"), 0);
  served.rescored = 1;
  EXPECT_GT(predict(served, exact_assumptions(), small_device(), {}).stage_seconds("score"), 0);
}

TEST(Scale, ThePairHeadIsComparedWithBothOthers) {
  const Prediction p = small_prediction();
  EXPECT_NEAR(p.head.dense_seconds - p.head.pair_seconds, (6. * 1000 * 96 - 96 * 4 * 10 * 12) / 1e6, 1e-12);
  EXPECT_EQ(p.head.pair_bytes, 50 * 4 * 12);
  EXPECT_EQ(p.head.dense_bytes, 2 * 256 * 100 * 4);
  EXPECT_EQ(p.head.whole_logits_bytes, 50 * 100 * 8);
}

TEST(Scale, DevicesAreFoundByNameAndListedWhereNot) {
  EXPECT_EQ(find_device("h20").memory, 96e9);
  EXPECT_EQ(find_device("L40S").bandwidth, 864e9);
  EXPECT_THAT(error_of([] { find_device("H200"); }),
              AllOf(HasSubstr("--gpu H200"), HasSubstr("H20, H100, A100, L40S, or this-cpu")));
  for (const Device& device : devices()) {
    EXPECT_GT(device.bfloat16, device.float32) << device.name;
    EXPECT_GE(device.link, device.network) << device.name;
    EXPECT_FALSE(device.source.empty()) << device.name;
  }
}

TEST(Scale, AssumptionsAreNamedAndBounded) {
  Assumptions all;
  assume(all, "decode_overhead=0.002");
  EXPECT_EQ(all.decode_overhead, 0.002);
  EXPECT_THAT(error_of([&] { assume(all, "lerner=0.5"); }), HasSubstr("did you mean learner?"));
  EXPECT_THAT(error_of([&] { assume(all, "learner=0"); }), HasSubstr("--assume: learner"));
  EXPECT_THAT(error_of([&] { assume(all, "learner"); }), HasSubstr("NAME=VALUE"));
}

}  // namespace
}  // namespace routeopd::scale
