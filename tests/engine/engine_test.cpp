// What an engine answers is checked before anyone uses it: short answers and other ids are marked with their
// reason, answers that contradict themselves are refused by name, and nothing is read that is not there.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/scripted_engine.h"
#include "routeopd/engine/score_rollout.h"
#include "routeopd/engine/score_sequences.h"
#include "testing_errors.h"

namespace routeopd::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::int32_t kIds = 30;
constexpr std::int32_t kTop = 4;

struct AnswerCheck : ::testing::Test {
  ScriptedEngine student{kIds, 1}, teacher{kIds, 2};
  std::vector<Prompt> prompts = [] {
    std::vector<Prompt> all(3);
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      all[i].number = i;
      all[i].ids = {static_cast<std::int32_t>(5 + i), 3};
    }
    return all;
  }();
  Sampling sampling{.n = 2, .decoding = {}, .max_new_tokens = 6, .seed = 4, .ignore_eos = true};
  Capture capture{.k = kTop};
  Rollout rollout = student.generate(prompts, sampling, capture);
  std::vector<std::int32_t> wanted_NG = std::vector<std::int32_t>(rollout.id_N.size() * 2, 7);
  ScoreRequest request{.k = kTop, .gather_ids_NG = wanted_NG, .gather_columns = 2};

  StateValues scored(const std::function<void(Answer&, const Rollout&)>& spoil) {
    teacher.spoil_answer = spoil;
    return teacher.score(rollout, request);
  }

  // Rows that have values are the answer's own; the others hold nothing.
  void expect_rows(const StateValues& values) {
    const StateValues whole = ScriptedEngine(kIds, 2).score(rollout, request);
    ASSERT_EQ(values.validity_N.size(), rollout.id_N.size());
    ASSERT_EQ(values.top_ids_NK.size(), rollout.id_N.size() * kTop);
    ASSERT_EQ(values.gathered_NG.size(), rollout.id_N.size() * 2);
    ASSERT_EQ(values.logsumexp_N.size(), rollout.id_N.size());
    for (std::size_t n = 0; n < rollout.id_N.size(); ++n) {
      const bool there = values.validity_N[n] == Validity::kValid;
      for (std::size_t i = n * kTop; i < (n + 1) * kTop; ++i) {
        EXPECT_EQ(values.top_ids_NK[i], there ? whole.top_ids_NK[i] : -1) << n;
        if (there) {
          EXPECT_EQ(values.top_logits_NK[i], whole.top_logits_NK[i]) << n;
        } else {
          EXPECT_TRUE(std::isnan(values.top_logits_NK[i])) << n;
        }
      }
      EXPECT_EQ(std::isnan(values.logsumexp_N[n]), !there) << n;
      EXPECT_EQ(std::isnan(values.gathered_NG[2 * n]), !there) << n;
    }
  }

  std::int64_t first_of(std::size_t response) const { return rollout.responses_B[response].first_state; }
};

TEST_F(AnswerCheck, WholeAnswersPass) {
  const StateValues values = scored({});
  expect_rows(values);
  for (const Validity validity : values.validity_N) EXPECT_EQ(validity, Validity::kValid);
  ASSERT_EQ(rollout.address_N.size(), rollout.id_N.size());
  const StateAddress& address = rollout.address_N[static_cast<std::size_t>(first_of(3) + 2)];
  EXPECT_EQ(std::tuple(address.prompt, address.response, address.position), std::tuple(1U, 1U, 2U));
}

// Erases the rows of response `b` from the j-th on.
void cut(Answer& answer, const Rollout& rollout, std::size_t b, std::int64_t j) {
  const std::int64_t first = rollout.responses_B[b].first_state + j,
                     count = rollout.responses_B[b].length - j;
  const auto erase = [&](auto& values, std::int64_t width) {
    values.erase(values.begin() + first * width, values.begin() + (first + count) * width);
  };
  erase(answer.id_N, 1);
  erase(answer.values.logsumexp_N, 1);
  erase(answer.values.top_ids_NK, answer.values.columns);
  erase(answer.values.top_logits_NK, answer.values.columns);
  if (!answer.values.gathered_NG.empty())
    erase(answer.values.gathered_NG, std::ssize(answer.values.gathered_NG) / rollout.states());
  answer.rows_B[b] = j;
}

TEST_F(AnswerCheck, ShorterAnswersAreTruncatedAndTheRestKeepsItsPlace) {
  for (const std::size_t response : {std::size_t{0}, std::size_t{2}, std::size_t{5}}) {
    const StateValues values =
        scored([&](Answer& answer, const Rollout& of) { cut(answer, of, response, 2); });
    expect_rows(values);
    for (std::int64_t n = 0; n < rollout.states(); ++n) {
      const std::int64_t j = n - first_of(response);
      const bool gone = j >= 2 && j < rollout.responses_B[response].length;
      EXPECT_EQ(values.validity_N[static_cast<std::size_t>(n)],
                gone ? Validity::kTruncatedScores : Validity::kValid);
    }
  }
  const StateValues none = scored([](Answer& answer, const Rollout& of) {
    Answer empty;
    empty.values.columns = answer.values.columns;
    empty.rows_B.assign(of.responses_B.size(), 0);
    answer = empty;
  });
  expect_rows(none);
  for (const Validity validity : none.validity_N) EXPECT_EQ(validity, Validity::kTruncatedScores);
}

// What comes after a token that was read otherwise is about another text, up to the end of that response.
TEST_F(AnswerCheck, OtherIdsAreMisalignedFromThereOn) {
  const StateValues values = scored(
      [&](Answer& answer, const Rollout&) { answer.id_N[static_cast<std::size_t>(first_of(1) + 3)] += 1; });
  expect_rows(values);
  for (std::int64_t n = 0; n < rollout.states(); ++n) {
    const bool other = n >= first_of(1) + 3 && n < first_of(2);
    EXPECT_EQ(values.validity_N[static_cast<std::size_t>(n)],
              other ? Validity::kMisaligned : Validity::kValid);
  }
}

TEST_F(AnswerCheck, IdsOutsideTheVocabularyAreMisaligned) {
  for (const std::int32_t bad : {kIds, 1 << 30, -2, std::numeric_limits<std::int32_t>::min()}) {
    const StateValues values =
        scored([&](Answer& answer, const Rollout&) { answer.values.top_ids_NK[5 * kTop + 1] = bad; });
    expect_rows(values);
    for (std::size_t n = 0; n < rollout.id_N.size(); ++n)
      EXPECT_EQ(values.validity_N[n], n == 5 ? Validity::kMisaligned : Validity::kValid) << bad;
  }
  // A pad is none.
  const StateValues padded =
      scored([](Answer& answer, const Rollout&) { answer.values.top_ids_NK[5 * kTop + 3] = -1; });
  EXPECT_EQ(padded.validity_N[5], Validity::kValid);
}

TEST_F(AnswerCheck, MoreRowsThanTokensAreAboutAnotherText) {
  const StateValues values = scored([&](Answer& answer, const Rollout& of) {
    const std::int64_t at = of.responses_B[2].first_state;  // its first row comes twice
    const auto repeat = [&](auto& all, std::int64_t width) {
      const std::vector row(all.begin() + at * width, all.begin() + (at + 1) * width);
      all.insert(all.begin() + at * width, row.begin(), row.end());
    };
    repeat(answer.id_N, 1);
    repeat(answer.values.logsumexp_N, 1);
    repeat(answer.values.top_ids_NK, kTop);
    repeat(answer.values.top_logits_NK, kTop);
    repeat(answer.values.gathered_NG, 2);
    ++answer.rows_B[2];
  });
  expect_rows(values);
  for (std::int64_t n = 0; n < rollout.states(); ++n) {
    const bool other = n >= first_of(2) && n < first_of(3);
    EXPECT_EQ(values.validity_N[static_cast<std::size_t>(n)],
              other ? Validity::kMisaligned : Validity::kValid);
  }
}

TEST_F(AnswerCheck, PartitionsThatAreNotFiniteAreMarked) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {std::nanf(""), inf, -inf}) {
    const StateValues values =
        scored([&](Answer& answer, const Rollout&) { answer.values.logsumexp_N[3] = bad; });
    EXPECT_EQ(values.validity_N[3], Validity::kNonFinite);
    EXPECT_EQ(values.validity_N[2], Validity::kValid);
  }
}

TEST_F(AnswerCheck, AnswersThatContradictThemselvesAreRefusedByName) {
  using Spoil = std::function<void(Answer&)>;
  const std::vector<Spoil> spoils = {
      [](Answer& a) { a.id_N.pop_back(); },
      [](Answer& a) { a.id_N.push_back(3); },
      [](Answer& a) { a.rows_B.pop_back(); },
      [](Answer& a) { a.rows_B.push_back(0); },
      [](Answer& a) { a.rows_B[0] = -1; },
      [](Answer& a) { a.rows_B[0] = std::numeric_limits<std::int64_t>::max(); },
      [](Answer& a) { a.rows_B[1] -= 1; },
      [](Answer& a) { a.values.columns = 0; },
      [](Answer& a) { a.values.columns = -1; },
      [](Answer& a) { a.values.columns = kTop + 1; },
      [](Answer& a) { a.values.top_ids_NK.pop_back(); },
      [](Answer& a) { a.values.top_logits_NK.clear(); },
      [](Answer& a) { a.values.logsumexp_N.clear(); },
      [](Answer& a) { a.values.gathered_NG.resize(3); },
      [](Answer& a) { a.values.gathered_NG.push_back(0); },
      [](Answer& a) { a.values.hidden_NH = {1, 2}; },
      [](Answer& a) { a.values.hidden_size = 4; },
      [](Answer& a) { a.values.hidden_size = std::numeric_limits<std::int64_t>::max(); }};
  for (std::size_t i = 0; i < spoils.size(); ++i)
    EXPECT_THAT(error_of([&] { scored([&](Answer& answer, const Rollout&) { spoils[i](answer); }); }),
                StartsWith("engine scripted: "))
        << i;
}

TEST_F(AnswerCheck, RolloutsThatAreNotWhatWasAskedForAreRefusedByName) {
  using Spoil = std::function<void(Rollout&)>;
  const std::vector<Spoil> spoils = {
      [](Rollout& r) { r.id_N[2] = kIds; },
      [](Rollout& r) { r.id_N[2] = -1; },
      [](Rollout& r) { r.id_N.pop_back(); },
      [](Rollout& r) { r.id_N.push_back(2); },
      [](Rollout& r) { r.logprob_N.pop_back(); },
      [](Rollout& r) { r.logsumexp_N.clear(); },
      [](Rollout& r) { r.top_ids_NK.pop_back(); },
      [](Rollout& r) { r.top_logits_NK.push_back(0); },
      [](Rollout& r) { r.columns = 0; },
      [](Rollout& r) { r.columns = kIds; },
      [](Rollout& r) { r.hidden_size = 2; },
      [](Rollout& r) { r.hidden_NH = {1}; },
      [](Rollout& r) { r.entropy_N = {1}; },
      [](Rollout& r) { r.responses_B.pop_back(); },
      [](Rollout& r) { r.responses_B[1].prompt = 1; },
      [](Rollout& r) { r.responses_B[1].prompt = 3; },
      [](Rollout& r) { r.responses_B[1].prompt = -1; },
      [](Rollout& r) { r.responses_B[1].sample = 2; },
      [](Rollout& r) { r.responses_B[1].first_state += 1; },
      [](Rollout& r) { r.responses_B[1].length = 0; },
      [](Rollout& r) { r.responses_B[1].length = std::numeric_limits<std::int64_t>::max(); },
      [](Rollout& r) { std::swap(r.responses_B[0].sample, r.responses_B[1].sample); },
      [](Rollout& r) { r.prompt_ids_P[0][0] += 1; },
      [](Rollout& r) { r.prompt_ids_P.pop_back(); }};
  for (std::size_t i = 0; i < spoils.size(); ++i) {
    student.spoil_rollout = spoils[i];
    EXPECT_THAT(error_of([&] { student.generate(prompts, sampling, capture); }),
                StartsWith("engine scripted: "))
        << i;
  }
  // The same for what a watch is told.
  student.spoil_rollout = [](Rollout& one) { one.id_N[0] = kIds; };
  std::int64_t told = 0;
  EXPECT_THAT(error_of([&] {
                student.generate(prompts, sampling, capture,
                                 [&](std::int64_t, std::int64_t, const Rollout&) { ++told; });
              }),
              HasSubstr("outside the vocabulary of 30 ids"));
  EXPECT_EQ(told, 0);
}

TEST_F(AnswerCheck, HiddenStatesAreACapability) {
  EXPECT_THAT(error_of([&] { student.generate(prompts, sampling, {.k = 2, .hidden = true}); }),
              HasSubstr("engine scripted: hidden states were asked for, and it has none"));
  EXPECT_THAT(error_of([&] { teacher.score(rollout, {.k = 2, .hidden = true}); }),
              HasSubstr("hidden states were asked for"));
  EXPECT_THAT(error_of([&] { student.generate(prompts, sampling, {.k = 2, .entropy = true}); }),
              HasSubstr("engine scripted: entropies were asked for, and it has none"));
}

// Without hidden states the student reads its responses again for the teacher's ids.
TEST_F(AnswerCheck, CrossGathersComeFromASecondReading) {
  const std::int64_t before = student.read;
  const Scores scores = score_rollout(student, teacher, rollout, {.k = kTop, .pool_ids_NP = {}});
  EXPECT_EQ(student.read, before + 1);
  EXPECT_EQ(teacher.read, 1);
  for (std::size_t n = 0; n < rollout.id_N.size(); ++n) {
    EXPECT_EQ(scores.validity_N[n], Validity::kValid);
    const bool begins = rollout.address_N[n].position == 0;
    const std::vector<float> row = student.row_after(begins ? 3 : rollout.id_N[n - 1]);
    for (std::size_t i = n * kTop; i < (n + 1) * kTop; ++i)
      EXPECT_EQ(scores.student_at_teacher_NJ[i], row[static_cast<std::size_t>(scores.teacher_ids_NJ[i])]);
  }
}

TEST_F(AnswerCheck, EitherModelsReasonIsTheStates) {
  rollout.top_ids_NK[8 * kTop] = kIds + 5;  // captured
  teacher.spoil_answer = [](Answer& answer, const Rollout& of) { cut(answer, of, 0, 1); };
  student.spoil_answer = [&](Answer& answer, const Rollout& of) {
    answer.id_N[static_cast<std::size_t>(of.responses_B[4].first_state)] += 1;
    answer.values.logsumexp_N.clear();  // gathered values need none
  };
  const Scores scores = score_rollout(student, teacher, rollout, {.k = kTop, .pool_ids_NP = {}});
  for (const std::int32_t id : teacher.ids_asked) EXPECT_TRUE(id >= -1 && id < kIds) << id;
  for (std::int64_t n = 0; n < rollout.states(); ++n) {
    Validity expected = Validity::kValid;
    if (n > 0 && n < first_of(1)) expected = Validity::kTruncatedScores;
    if (n >= first_of(4) && n < first_of(5)) expected = Validity::kMisaligned;
    if (n == 8) expected = first_reason(expected, Validity::kMisaligned);
    EXPECT_EQ(scores.validity_N[static_cast<std::size_t>(n)], expected) << n;
  }
  for (const std::int32_t id : student.ids_asked) EXPECT_TRUE(id >= -1 && id < kIds) << id;
}

// The token taken is what sampled reverse KL reads; an answer without it is not finite.
TEST_F(AnswerCheck, ATokenWithoutAValueIsNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {std::nanf(""), inf, -inf}) {
    teacher.spoil_answer = [&](Answer& answer, const Rollout&) {
      answer.values.gathered_NG[4 * (kTop + 1) + kTop] = bad;
    };
    const Scores scores = score_rollout(student, teacher, rollout, {.k = kTop, .pool_ids_NP = {}});
    EXPECT_EQ(scores.validity_N[4], bad == -inf ? Validity::kValid : Validity::kNonFinite)
        << "a probability of 0 is one";
    EXPECT_EQ(scores.validity_N[3], Validity::kValid);
  }
}

TEST_F(AnswerCheck, RescoringTellsItsReasons) {
  student.spoil_answer = [](Answer& answer, const Rollout& of) {
    if (answer.values.columns > 0) cut(answer, of, 3, 0);
  };
  const Scores scores =
      score_rollout(student, teacher, rollout, {.k = kTop, .rescore = true, .pool_ids_NP = {}});
  for (std::int64_t n = 0; n < rollout.states(); ++n) {
    const bool gone = n >= first_of(3) && n < first_of(4);
    EXPECT_EQ(scores.validity_N[static_cast<std::size_t>(n)],
              gone ? Validity::kTruncatedScores : Validity::kValid);
  }
}

TEST_F(AnswerCheck, GivenSequencesNeedTheirValues) {
  const std::vector<GivenSequence> sequences = {{.ids_L = {1, 2, 3}, .gather_R = {}},
                                                {.ids_L = {4, 5}, .gather_R = {}}};
  EXPECT_EQ(score_sequences(teacher, sequences, 2).size(), 2U);
  teacher.spoil_answer = [](Answer& answer, const Rollout& of) { cut(answer, of, 1, 0); };
  EXPECT_THAT(error_of([&] { score_sequences(teacher, sequences, 2); }),
              HasSubstr("the answer of engine scripted to token 1 of sequence 2 is truncated_scores"));
}

TEST_F(AnswerCheck, OneVocabularyIsExpected) {
  ScriptedEngine wider(kIds + 1, 2);
  EXPECT_THAT(error_of([&] { score_rollout(student, wider, rollout, {.k = kTop, .pool_ids_NP = {}}); }),
              HasSubstr("has 30 ids and the teacher's 31"));
}

}  // namespace
}  // namespace routeopd::engine
