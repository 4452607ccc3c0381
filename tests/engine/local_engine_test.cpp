// The built-in engine on tiny checkpoints: what was captured while writing equals what is read afterwards,
// and layout changes nothing.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/local_engine.h"

#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "routeopd/engine/score_rollout.h"
#include "routeopd/engine/score_sequences.h"
#include "routeopd/model/decoder.h"
#include "routeopd/model/packed_batch.h"
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

// The engine is batch-invariant: what decoding captured is what scoring computes, to the last bit.
TEST(Generate, CapturedValuesEqualASecondForward) {
  Pair pair;
  const Rollout captured = pair.write.generate(some_prompts(), sampling(), {.k = 8, .hidden = true});
  Rollout read = captured;
  rescore(pair.write, read, 8);
  EXPECT_EQ(captured.logprob_N, read.logprob_N);
  EXPECT_EQ(captured.logsumexp_N, read.logsumexp_N);
  EXPECT_EQ(captured.top_logits_NK, read.top_logits_NK);
  EXPECT_EQ(captured.top_ids_NK, read.top_ids_NK);
  EXPECT_EQ(captured.hidden_NH, read.hidden_NH);
}

// Decoding, the learner's forward and the head's plain product say the same within float32.
TEST(Generate, CapturedValuesEqualTheTrainingForward) {
  const c10::NoGradGuard no_grad;
  Pair pair;
  const Rollout rollout =
      pair.write.generate(some_prompts(), sampling(), {.k = 8, .hidden = true, .entropy = true});
  const model::ResponseBatch batch = model::pack_responses(rollout, 0, rollout.responses_B.size());
  const at::Tensor hidden =
      model::packed_hidden(pair.student, batch.packed).index_select(0, batch.state_places);
  const at::Tensor logprobs =
      at::log_softmax(at::linear(hidden, pair.student.head_VH.slice(0, 0, kRealIds)), -1).contiguous();
  for (std::int64_t n = 0; n < rollout.states(); ++n) {
    const auto at = static_cast<std::size_t>(n);
    EXPECT_NEAR(rollout.logprob_N[at], logprobs[n][rollout.id_N[at]].item<float>(), kTolerance);
    const at::Tensor log_p_R = logprobs[n].to(at::kDouble);
    EXPECT_NEAR(rollout.entropy_N[at], -(log_p_R.exp() * log_p_R).sum().item<double>(), kTolerance);
  }
}

// The entropy is that of the model at temperature 1, whatever the tokens are drawn from.
TEST(Generate, EntropiesAreThoseAtTemperatureOne) {
  Pair pair;
  Sampling cold = sampling();
  cold.decoding = {.temperature = 0.3, .top_p = 0.8};
  const Rollout drawn = pair.write.generate(some_prompts(), cold, {.entropy = true});
  ASSERT_EQ(std::ssize(drawn.entropy_N), drawn.states());
  EXPECT_TRUE(drawn.logsumexp_N.empty());
  const StateValues all = pair.write.score(drawn, {.k = kRealIds});
  for (std::size_t n = 0; n < drawn.entropy_N.size(); ++n) {
    double entropy = 0;
    for (std::size_t i = n * kRealIds; i < (n + 1) * kRealIds; ++i) {
      const double log_p =
          static_cast<double>(all.top_logits_NK[i]) - static_cast<double>(all.logsumexp_N[n]);
      entropy -= std::exp(log_p) * log_p;
    }
    EXPECT_NEAR(drawn.entropy_N[n], entropy, 3e-6);
  }
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

// Few places, forwards of a few tokens, and so little memory that responses are evicted and read again.
TEST(Generate, LimitsChangeNothing) {
  Pair pair;
  std::vector<Prompt> prompts = some_prompts();
  for (int j = 0; j < 40; ++j) prompts[2].ids.push_back((17 * j) % kRealIds);  // several blocks
  Sampling how = sampling();
  how.max_new_tokens = 60;
  how.ignore_eos = true;
  const Capture capture{.k = 4, .hidden = true};
  const Rollout whole = pair.write.generate(prompts, how, capture);
  const std::int64_t block = model::KvStorage::block_bytes(pair.student.config);
  std::int64_t evictions = 0;
  for (const LocalOptions& options :
       {LocalOptions{.step_tokens = 3}, LocalOptions{.step_tokens = 1}, LocalOptions{.kv_bytes = 7 * block},
        LocalOptions{.kv_bytes = 9 * block}, LocalOptions{.step_tokens = 5, .kv_bytes = 12 * block},
        LocalOptions{.kv_bytes = 24 * block}}) {
    LocalEngine narrow(pair.student, kRealIds, options);
    const Rollout got = narrow.generate(prompts, how, capture);
    EXPECT_EQ(got.id_N, whole.id_N);
    EXPECT_EQ(got.logprob_N, whole.logprob_N);
    EXPECT_EQ(got.top_logits_NK, whole.top_logits_NK);
    EXPECT_EQ(got.hidden_NH, whole.hidden_NH);
    for (std::size_t b = 0; b < got.responses_B.size(); ++b) {
      EXPECT_EQ(got.responses_B[b].prompt, whole.responses_B[b].prompt);
      EXPECT_EQ(got.responses_B[b].sample, whole.responses_B[b].sample);
    }
    const GenerationStats& stats = narrow.last_generation();
    EXPECT_LE(stats.peak_blocks, stats.kv.blocks);
    if (options.kv_bytes > 0) {
      EXPECT_LE(stats.kv.bytes(), options.kv_bytes);
    }
    evictions += stats.evictions;
  }
  EXPECT_GT(evictions, 0) << "the test needs memory that does not do";
}

TEST(Generate, RefusesWhatCanNeverFit) {
  Pair pair;
  LocalEngine small(pair.student, kRealIds, {.kv_bytes = model::KvStorage::block_bytes(pair.student.config)});
  EXPECT_THAT(error_of([&] { small.generate(some_prompts(), sampling(), {}); }),
              ::testing::AllOf(::testing::HasSubstr("prompt 0: its 3 tokens and max_new_tokens = 24"),
                               ::testing::HasSubstr("kv_memory is")));
}

TEST(Generate, OrderOfPromptsChangesNothing) {
  Pair pair;
  const std::vector<Prompt> prompts = some_prompts();
  const Rollout whole = pair.write.generate(prompts, sampling(), {});
  const std::vector<Prompt> reversed(prompts.rbegin(), prompts.rend());
  const Rollout back = pair.write.generate(reversed, sampling(), {});
  const Response& last = back.responses_B[12];  // the first prompt's first response
  const Response& first = whole.responses_B[0];
  ASSERT_EQ(last.length, first.length);
  for (std::int64_t j = 0; j < first.length; ++j)
    EXPECT_EQ(back.id_N[static_cast<std::size_t>(last.first_state + j)],
              whole.id_N[static_cast<std::size_t>(j)]);
}

TEST(Generate, TellsOfEveryResponseAsItEnds) {
  Pair pair;
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::int32_t>> seen;
  std::int64_t told = 0;
  const Rollout rollout = pair.write.generate(
      some_prompts(), sampling(), {.k = 2}, [&](std::int64_t done, std::int64_t total, const Rollout& one) {
        EXPECT_EQ(done, ++told);
        EXPECT_EQ(total, 15);
        ASSERT_EQ(one.responses_B.size(), 1U);
        EXPECT_EQ(one.top_ids_NK.size(), 2 * one.id_N.size());
        seen[{one.responses_B[0].prompt, one.responses_B[0].sample}] = one.id_N;
      });
  EXPECT_EQ(seen.size(), 15U);
  for (const Response& response : rollout.responses_B) {
    const auto ids = std::span(rollout.id_N)
                         .subspan(static_cast<std::size_t>(response.first_state),
                                  static_cast<std::size_t>(response.length));
    EXPECT_EQ((seen[{response.prompt, response.sample}]), std::vector(ids.begin(), ids.end()));
  }
}

// A part of the responses is what it is in the whole: an evaluation that was stopped asks for the rest.
TEST(Generate, SamplesAskedForAreThoseOfTheWhole) {
  Pair pair;
  const std::vector<Prompt> prompts = some_prompts();
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::int32_t>> whole, part;
  const auto keep = [](auto& into) {
    return [&into](std::int64_t, std::int64_t, const Rollout& one) {
      EXPECT_TRUE(
          into.emplace(std::pair(one.responses_B[0].prompt, one.responses_B[0].sample), one.id_N).second);
    };
  };
  pair.write.generate(prompts, sampling(), {}, keep(whole));
  Sampling some = sampling();
  some.samples_P = {{2}, {0, 1, 2}, {1}, {0, 2}, {1, 2}};
  const Rollout rollout = pair.write.generate(prompts, some, {}, keep(part));
  EXPECT_EQ(rollout.responses_B.size(), 9U);
  ASSERT_EQ(part.size(), 9U);
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    for (const std::int32_t sample : some.samples_P[p]) {
      const std::pair key(static_cast<std::int32_t>(p), sample);
      EXPECT_EQ(part.at(key), whole.at(key)) << p << ", " << sample;
    }
  }
}

// New weights are seen after refresh(), and not before.
TEST(Generate, TakesOverNewWeights) {
  Pair pair;
  Sampling greedy = sampling();
  greedy.decoding.temperature = 0;
  const std::vector<float> before = pair.write.generate(some_prompts(), greedy, {}).logprob_N;
  {
    const c10::NoGradGuard no_grad;
    model::copy_weights(pair.teacher, pair.student);
  }
  pair.write.refresh();
  EXPECT_EQ(pair.write.generate(some_prompts(), greedy, {}).logprob_N,
            pair.read.generate(some_prompts(), greedy, {}).logprob_N);
  EXPECT_NE(pair.write.generate(some_prompts(), greedy, {}).logprob_N, before);
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

// Forwards whose border falls into the block that a prompt fills in part, and portions that part responses.
TEST(ScoreRollout, PortionsDoNotMatter) {
  Pair pair;
  std::vector<Prompt> prompts = some_prompts();
  for (int j = 0; j < 29; ++j) prompts[2].ids.push_back((17 * j) % kRealIds);
  const Rollout rollout = pair.write.generate(prompts, sampling(), {});
  std::vector<std::int32_t> wanted;  // other ids at every state
  for (std::int32_t n = 0; n < rollout.states(); ++n) wanted.push_back((31 * n) % kRealIds);
  const ScoreRequest request{.k = 4, .gather_ids_NG = wanted, .gather_columns = 1};
  const StateValues a = pair.read.score(rollout, request);
  for (const LocalOptions& options :
       {LocalOptions{.step_tokens = 16, .score_tokens = 40}, LocalOptions{.step_tokens = 7},
        LocalOptions{.step_tokens = 35}, LocalOptions{.score_tokens = 1}}) {
    LocalEngine narrow(pair.teacher, kRealIds, options);
    const StateValues b = narrow.score(rollout, request);
    EXPECT_EQ(a.gathered_NG, b.gathered_NG);
    EXPECT_EQ(a.logsumexp_N, b.logsumexp_N);
    EXPECT_EQ(a.top_ids_NK, b.top_ids_NK);
  }
}

// Sequences far shorter than a block still take one each.
TEST(ScoreRollout, MemoryIsBoundedForShortSequences) {
  Pair pair;
  const std::vector<GivenSequence> sequences(500, GivenSequence{.ids_L = {1, 2}, .gather_R = {}});
  LocalEngine engine(pair.teacher, kRealIds, {.score_tokens = 160});
  score_sequences(engine, sequences, 2);
  EXPECT_LE(engine.kv_bytes_held(), 10 * model::KvStorage::block_bytes(pair.teacher.config));
}

TEST(ScoreRollout, MarksStatesThatAreNotFinite) {
  Pair pair;
  Rollout rollout = pair.write.generate(some_prompts(), sampling(), {.k = 4, .hidden = true});
  pair.teacher.norm_H.fill_(std::numeric_limits<float>::quiet_NaN());
  const Scores scores = score_rollout(pair.write, pair.read, rollout, {.k = 4, .pool_ids_NP = {}});
  for (const Validity validity : scores.validity_N) EXPECT_EQ(validity, Validity::kNonFinite);
}

// Teacher = student: no mass anywhere, exactly, whether the student's side was captured while decoding or
// read again.
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
      EXPECT_EQ(routes.mass_N[n], 0.0F) << (again ? "read again" : "captured");
      EXPECT_EQ(routes.routed_N[n], 0);
    }
  }
}

}  // namespace
}  // namespace routeopd::engine
