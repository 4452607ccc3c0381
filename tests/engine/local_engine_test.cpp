// The built-in engine on tiny checkpoints: what was captured while writing equals what is read afterwards, and layout
// changes nothing.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/local_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "routeopd/engine/score_rollout.h"
#include "routeopd/routing/options.h"
#include "routeopd/train/route_rollout.h"
#include "testing_files.h"
#include "tiny_models.h"

namespace routeopd::engine {
namespace {

constexpr std::int32_t kRealIds = 90;
constexpr double kTolerance = 1e-4;  // of a float32 log-probability

std::vector<Prompt> some_prompts() {
  std::vector<Prompt> prompts;
  for (const int length : {3, 1, 8, 5, 2}) {
    Prompt& prompt = prompts.emplace_back();
    prompt.number = static_cast<std::uint32_t>(prompts.size() - 1);
    prompt.id = std::to_string(prompt.number);
    for (int j = 0; j < length; ++j) prompt.ids.push_back((13 * j + 5 * length) % kRealIds);
  }
  return prompts;
}

Sampling sampling() {
  return {.n = 3, .decoding = {}, .max_new_tokens = 24, .seed = 7};
}

struct Pair {
  model::Model student = model::load_model(tiny("student"));
  model::Model teacher = model::load_model(tiny("teacher"));
  LocalEngine write{student, kRealIds};
  LocalEngine read{teacher, kRealIds};
};

void expect_near(const std::vector<float>& a, const std::vector<float>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], kTolerance) << what << " " << i;
}

TEST(Generate, CapturedValuesEqualASecondForward) {
  Pair pair;
  const Rollout captured = pair.write.generate(some_prompts(), sampling(), {.k = 8, .hidden = true});
  Rollout read = captured;
  rescore(pair.write, read, 8);
  expect_near(captured.logprob_N, read.logprob_N, "log-probability");
  expect_near(captured.logsumexp_N, read.logsumexp_N, "log-partition");
  expect_near(captured.top_logits_NK, read.top_logits_NK, "top logit");
  expect_near(captured.hidden_NH, read.hidden_NH, "hidden state");
  std::size_t different = 0;  // ids may change places only where two logits are within rounding
  for (std::size_t i = 0; i < captured.top_ids_NK.size(); ++i)
    different += captured.top_ids_NK[i] != read.top_ids_NK[i] ? 1 : 0;
  EXPECT_LE(different, captured.top_ids_NK.size() / 100);
}

TEST(Generate, IsWellFormed) {
  Pair pair;
  const Rollout rollout = pair.write.generate(some_prompts(), sampling(), {.k = 4});
  ASSERT_EQ(rollout.responses_B.size(), 15U);
  std::int64_t next = 0, stopped = 0;
  for (const Response& response : rollout.responses_B) {
    EXPECT_EQ(response.first_state, next);
    next += response.length;
    const std::int32_t last = rollout.id_N[static_cast<std::size_t>(next - 1)];
    EXPECT_EQ(response.finish == Finish::kStop, last == 1) << "1 is the end of sequence";
    EXPECT_TRUE(response.finish == Finish::kStop || response.length == 24);
    stopped += response.finish == Finish::kStop ? 1 : 0;
    for (std::int64_t j = response.first_state; j < next - 1; ++j)
      EXPECT_NE(rollout.id_N[static_cast<std::size_t>(j)], 1);
  }
  EXPECT_EQ(next, rollout.states());
  EXPECT_GT(stopped, 0) << "the test needs responses that end by themselves";
  EXPECT_LT(stopped, 15) << "and some that are cut off";
  for (const std::int32_t id : rollout.id_N) EXPECT_LT(id, kRealIds) << "a padded row was sampled";
}

TEST(Generate, LayoutChangesNothing) {
  Pair pair;
  const std::vector<Prompt> prompts = some_prompts();
  const Rollout whole = pair.write.generate(prompts, sampling(), {});
  LocalEngine narrow(pair.student, kRealIds, {.sequences = 3, .score_tokens = 10});
  const Rollout waves = narrow.generate(prompts, sampling(), {});
  EXPECT_EQ(waves.id_N, whole.id_N) << "in waves of one prompt";
  for (std::size_t b = 0; b < waves.responses_B.size(); ++b)
    EXPECT_EQ(waves.responses_B[b].prompt, whole.responses_B[b].prompt);
  std::vector<Prompt> reversed(prompts.rbegin(), prompts.rend());
  const Rollout back = pair.write.generate(reversed, sampling(), {});
  const Response& last = back.responses_B[12];  // the first prompt's first response
  const Response& first = whole.responses_B[0];
  ASSERT_EQ(last.length, first.length);
  for (std::int64_t j = 0; j < first.length; ++j)
    EXPECT_EQ(back.id_N[static_cast<std::size_t>(last.first_state + j)],
              whole.id_N[static_cast<std::size_t>(j)]);
}

TEST(Generate, AnyEndOfSequenceEnds) {
  Pair pair;
  pair.student.config.eos_token_ids = {1, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50};
  LocalEngine engine(pair.student, kRealIds);
  const Rollout rollout = engine.generate(some_prompts(), sampling(), {});
  std::int64_t by_another = 0;
  for (const Response& response : rollout.responses_B) {
    for (std::int64_t j = 0; j < response.length; ++j) {
      const std::int32_t id = rollout.id_N[static_cast<std::size_t>(response.first_state + j)];
      const bool ends = id == 1 || (id >= 40 && id <= 50);
      EXPECT_EQ(ends, response.finish == Finish::kStop && j + 1 == response.length);
      by_another += ends && id != 1 ? 1 : 0;
    }
  }
  EXPECT_GT(by_another, 0);
}

TEST(Generate, SeedsAndStepsMatterAndGreedyIgnoresThem) {
  Pair pair;
  const auto ids = [&](Sampling how) { return pair.write.generate(some_prompts(), how, {}).id_N; };
  Sampling other_seed = sampling(), other_step = sampling(), greedy = sampling();
  other_seed.seed = 8;
  other_step.step = 1;
  EXPECT_NE(ids(sampling()), ids(other_seed));
  EXPECT_NE(ids(sampling()), ids(other_step));
  greedy.decoding.temperature = 0;
  Sampling greedy_other = greedy;
  greedy_other.seed = 9;
  EXPECT_EQ(ids(greedy), ids(greedy_other));
}

TEST(Generate, RefusesPromptsThatCannotBeRead) {
  Pair pair;
  std::vector<Prompt> prompts = some_prompts();
  prompts[1].ids = {};
  EXPECT_THAT(error_of([&] { pair.write.generate(prompts, sampling(), {}); }),
              ::testing::HasSubstr("no tokens"));
  prompts[1].ids = {93};
  EXPECT_THAT(error_of([&] { pair.write.generate(prompts, sampling(), {}); }),
              ::testing::HasSubstr("id 93 is outside the vocabulary of 90 ids"));
  prompts[1].ids = std::vector<std::int32_t>(120, 1);
  EXPECT_THAT(error_of([&] { pair.write.generate(prompts, sampling(), {}); }),
              ::testing::HasSubstr("pass the model's 128 positions"));
}

TEST(Generate, NamesWeightsThatGiveNoDistribution) {
  Pair pair;
  pair.student.norm_H.fill_(std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(error_of([&] { pair.write.generate(some_prompts(), sampling(), {}); }),
              ::testing::HasSubstr("NaN"));
}

// Values that the scoring stage brings together are those of two plain forwards.
TEST(ScoreRollout, CrossGathersAreTheOtherModelsLogits) {
  Pair pair;
  Rollout rollout = pair.write.generate(some_prompts(), sampling(), {.k = 8, .hidden = true});
  const Scores scores = score_rollout(pair.write, pair.read, rollout, {.k = 8, .pool_ids_NP = {}});
  const auto full = [&](LocalEngine& engine) {  // every real id's logit at every state
    std::vector<std::int32_t> every;
    for (std::int64_t n = 0; n < rollout.states(); ++n)
      for (std::int32_t id = 0; id < kRealIds; ++id) every.push_back(id);
    return engine.score(rollout, {.k = 1, .gather_ids_NG = every, .gather_columns = kRealIds}).gathered_NG;
  };
  const std::vector<float> student = full(pair.write), teacher = full(pair.read);
  for (std::size_t n = 0; n < rollout.id_N.size(); ++n) {
    double sum = 0;
    for (std::size_t id = 0; id < kRealIds; ++id)
      sum += std::exp(static_cast<double>(teacher[n * kRealIds + id]));
    EXPECT_NEAR(scores.teacher_logsumexp_N[n], std::log(sum), kTolerance);
    const float taken = teacher[n * kRealIds + static_cast<std::size_t>(rollout.id_N[n])];
    EXPECT_NEAR(scores.teacher_logprob_N[n], taken - std::log(sum), kTolerance);
    for (std::size_t i = 0; i < 8; ++i) {
      const auto own = static_cast<std::size_t>(rollout.top_ids_NK[n * 8 + i]);
      const auto other = static_cast<std::size_t>(scores.teacher_ids_NJ[n * 8 + i]);
      EXPECT_NEAR(scores.teacher_at_student_NK[n * 8 + i], teacher[n * kRealIds + own], kTolerance);
      EXPECT_NEAR(scores.student_at_teacher_NJ[n * 8 + i], student[n * kRealIds + other], kTolerance);
      EXPECT_NEAR(scores.teacher_logits_NJ[n * 8 + i], teacher[n * kRealIds + other], kTolerance);
    }
    EXPECT_EQ(scores.validity_N[n], Validity::kValid);
  }
}

TEST(ScoreRollout, PortionsDoNotMatter) {
  Pair pair;
  const Rollout rollout = pair.write.generate(some_prompts(), sampling(), {});
  LocalEngine narrow(pair.teacher, kRealIds, {.sequences = 512, .score_tokens = 40});
  std::vector<std::int32_t> wanted;  // other ids at every state
  for (std::int32_t n = 0; n < rollout.states(); ++n) wanted.push_back((31 * n) % kRealIds);
  const ScoreRequest request{.k = 4, .gather_ids_NG = wanted, .gather_columns = 1};
  const StateValues a = pair.read.score(rollout, request), b = narrow.score(rollout, request);
  expect_near(a.gathered_NG, b.gathered_NG, "gathered logit");
  expect_near(a.logsumexp_N, b.logsumexp_N, "log-partition");
  EXPECT_EQ(a.top_ids_NK, b.top_ids_NK);
}

TEST(ScoreRollout, MarksStatesThatAreNotFinite) {
  Pair pair;
  Rollout rollout = pair.write.generate(some_prompts(), sampling(), {.k = 4, .hidden = true});
  pair.teacher.norm_H.fill_(std::numeric_limits<float>::quiet_NaN());
  const Scores scores = score_rollout(pair.write, pair.read, rollout, {.k = 4, .pool_ids_NP = {}});
  for (const Validity validity : scores.validity_N) EXPECT_EQ(validity, Validity::kNonFinite);
}

// Teacher = student: no mass anywhere. Exactly so when both are read by the same forward; within the tolerance on M
// when the student's side was captured while decoding, whose GEMMs have other shapes.
TEST(ScoreRollout, TeacherEqualToStudentHasNoMass) {
  Pair pair;
  for (const bool again : {true, false}) {
    Rollout rollout = pair.write.generate(some_prompts(), sampling(), {.k = 8, .hidden = true});
    const Scores scores =
        score_rollout(pair.write, pair.write, rollout, {.k = 8, .rescore = again, .pool_ids_NP = {}});
    const routing::ObjectiveOptions options = routing::objective_from({{"k", 8}});
    const Routes routes = train::route_rollout(rollout, scores, options, 1,
                                               {pair.student.head_VH, pair.student.head_VH, kRealIds});
    for (std::size_t n = 0; n < routes.mass_N.size(); ++n) {
      EXPECT_LE(routes.mass_N[n], again ? 0.0F : 1e-5F);
      if (again) {
        EXPECT_EQ(routes.routed_N[n], 0);
      }
    }
  }
}

}  // namespace
}  // namespace routeopd::engine
