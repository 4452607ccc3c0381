// What vLLM answers: recordings of a live server against what plain JSON says of them, and everything that an
// answer can have wrong.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/remote/vllm_answers.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include "routeopd/base/fields.h"
#include "routeopd/engine/remote/base64_array.h"
#include "testing_errors.h"

namespace routeopd::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string vllm_recording(const std::string& name) {
  std::ifstream file(std::string(ROUTEOPD_TEST_DATA) + "/engine/answers/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <class T>
std::vector<T> flat(const Json& rows) {
  std::vector<T> all;
  for (const Json& row : rows)
    for (const Json& value : row) all.push_back(value.get<T>());
  return all;
}

// One state of a scoring answer, as the server writes it: the token that was read comes first.
std::string vllm_entries(const std::vector<std::pair<int, std::string>>& entries, int k = 2) {
  std::string text;
  int rank = 0;
  for (const auto& [id, value] : entries)
    text += fmt::format(R"({}"{}":{{"logprob":{},"rank":{},"decoded_token":null}})", text.empty() ? "" : ",",
                        id, value, ++rank > k ? 99 : rank);
  return "{" + text + "}";
}

// A prompt of one token and what is given for the response's.
std::string vllm_scored(const std::vector<std::string>& states, const std::string& more = "") {
  return fmt::format(R"({{"request_id":"r","prompt_logprobs":[null{}{}],{}"choices":[{{"index":0,)"
                     R"("weight_versions":[{{"version":"7","start":0,"end":1}}]}}]}})",
                     states.empty() ? "" : ",", fmt::join(states, ","), more);
}

constexpr std::int32_t kVllmIds = 10;

VllmScoring scoring(std::int64_t states, std::int32_t k = 2) {
  return {.prompt_length = 1, .response_length = states, .real_ids = kVllmIds, .k = k, .top = k};
}

ReadAnswer scored(const std::string& body, const VllmScoring& asked) {
  ReadAnswer answer;
  read_vllm_scores(body, asked, answer);
  return answer;
}

std::string scoring_error(const std::string& body, const VllmScoring& asked) {
  try {
    scored(body, asked);
  } catch (const BadAnswer& error) {
    return error.what();
  }
  return "";
}

const std::string kGoodState = vllm_entries({{3, "-0.5"}, {4, "-1.5"}});

TEST(VllmAnswers, ScoresAreThoseOfTheRecordings) {
  for (const char* name : {"vllm_scores", "vllm_completions"}) {
    const Json expected = Json::parse(vllm_recording(fmt::format("{}.expected.json", name)));
    const ReadAnswer read =
        scored(vllm_recording(fmt::format("{}.json", name)),
               {.prompt_length = 4, .response_length = 5, .real_ids = 512, .k = 4, .top = 4});
    EXPECT_EQ(read.answer.id_N, expected.at("ids").get<std::vector<std::int32_t>>()) << name;
    EXPECT_EQ(read.answer.values.top_ids_NK, flat<std::int32_t>(expected.at("top_ids"))) << name;
    EXPECT_EQ(read.answer.values.top_logits_NK, flat<float>(expected.at("top_logprobs"))) << name;
    EXPECT_THAT(read.answer.values.logsumexp_N, ElementsAre(0, 0, 0, 0, 0));
    EXPECT_THAT(read.answer.rows_B, ElementsAre(5));
  }
}

TEST(VllmAnswers, ResponsesAreThoseOfTheRecording) {
  const Json expected = Json::parse(vllm_recording("vllm_response.expected.json"));
  WrittenAnswer written;
  read_vllm_response(vllm_recording("vllm_response.json"),
                     {.sample = 3, .real_ids = 512, .k = 4, .max_new_tokens = 6}, written);
  const Rollout& rollout = written.rollout;
  EXPECT_EQ(rollout.id_N, expected.at("ids").get<std::vector<std::int32_t>>());
  EXPECT_EQ(rollout.logprob_N, expected.at("logprobs").get<std::vector<float>>());
  EXPECT_EQ(rollout.top_ids_NK, flat<std::int32_t>(expected.at("top_ids")));
  EXPECT_EQ(rollout.top_logits_NK, flat<float>(expected.at("top_logprobs")));
  ASSERT_EQ(rollout.responses_B.size(), 1U);
  EXPECT_EQ(rollout.responses_B[0].sample, 3);
  EXPECT_EQ(rollout.responses_B[0].finish, Finish::kLength);
  EXPECT_EQ(written.version, kForeignVersion);  // it was recorded while a reload was under way
}

TEST(VllmAnswers, EveryCutOfARecordingIsABadAnswer) {
  const std::string whole = vllm_recording("vllm_scores.json"), wrote = vllm_recording("vllm_response.json");
  ASSERT_GT(whole.size(), 1000U);
  for (std::size_t size = 0; size < whole.size(); size += 7)
    EXPECT_NE(scoring_error(whole.substr(0, size),
                            {.prompt_length = 4, .response_length = 5, .real_ids = 512, .k = 4, .top = 4}),
              "")
        << size;
  for (std::size_t size = 0; size < wrote.size(); size += 7) {
    WrittenAnswer written;
    EXPECT_THROW(
        read_vllm_response(wrote.substr(0, size), {.real_ids = 512, .k = 4, .max_new_tokens = 6}, written),
        BadAnswer)
        << size;
  }
}

TEST(VllmAnswers, VersionsAreNumbersThatWeGave) {
  EXPECT_EQ(scored(vllm_scored({kGoodState}), scoring(1)).version, 7);
}

TEST(VllmAnswers, MinusInfinityIsCountedAndUsable) {
  const ReadAnswer read = scored(vllm_scored({vllm_entries({{3, "-0.5"}, {4, "-9999.0"}})}), scoring(1));
  EXPECT_EQ(read.answer.values.top_logits_NK[1], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(read.answer.values.logsumexp_N[0], 0);
  EXPECT_EQ(read.counts, (Counts{{"minus_inf", 1}}));
}

TEST(VllmAnswers, NanMarksItsStateAlone) {
  for (const char* none : {"null", "NaN", "-Infinity"}) {
    const ReadAnswer read =
        scored(vllm_scored({vllm_entries({{3, "-0.5"}, {4, none}}), kGoodState}), scoring(2));
    EXPECT_TRUE(std::isnan(read.answer.values.logsumexp_N[0])) << none;
    EXPECT_EQ(read.answer.values.logsumexp_N[1], 0) << none;
    EXPECT_THAT(read.answer.id_N, ElementsAre(3, 3)) << none;
  }
  // As vLLM writes NaN among the values of tokens that it samples.
  const ReadAnswer read = scored(
      vllm_scored({R"({"3":{"logprob":-0.5,"rank":1},"4":{"logprob":-9999.0,"rank":null}})"}), scoring(1));
  EXPECT_TRUE(std::isnan(read.answer.values.logsumexp_N[0]));
  EXPECT_TRUE(read.counts.empty()) << "it is not minus infinity";
}

TEST(VllmAnswers, FewerPositionsThanTokensAreFewerRows) {
  EXPECT_THAT(scored(vllm_scored({kGoodState}), scoring(3)).answer.rows_B, ElementsAre(1));
  EXPECT_THAT(scored(vllm_scored({kGoodState, "null", kGoodState}), scoring(3)).answer.rows_B,
              ElementsAre(1));
  EXPECT_THAT(scoring_error(vllm_scored({kGoodState, kGoodState}), scoring(1)), HasSubstr("more entries"));
}

TEST(VllmAnswers, TheTokenThatWasReadIsTheFirstOrThatOfALowRank) {
  // Not among the two best: listed first here, last there; its rank tells.
  EXPECT_THAT(scored(vllm_scored({R"({"8":{"logprob":-7,"rank":6},"3":{"logprob":-1,"rank":1},)"
                                  R"("4":{"logprob":-2,"rank":2}})"}),
                     scoring(1))
                  .answer.id_N,
              ElementsAre(8));
  EXPECT_THAT(scored(vllm_scored({R"({"3":{"logprob":-1,"rank":1},"4":{"logprob":-2,"rank":2},)"
                                  R"("8":{"logprob":-7,"rank":6}})"}),
                     scoring(1))
                  .answer.id_N,
              ElementsAre(8));
}

TEST(VllmAnswers, EqualValuesAreInTheOrderOfTheirIds) {
  const ReadAnswer read =
      scored(vllm_scored({vllm_entries({{9, "-1"}, {2, "-1"}, {5, "-1"}}, 3)}), scoring(1, 3));
  EXPECT_THAT(read.answer.values.top_ids_NK, ElementsAre(2, 5, 9));
}

TEST(VllmAnswers, PaddedIdsAreLeftOutAndCounted) {
  const ReadAnswer read = scored(vllm_scored({vllm_entries({{3, "-0.5"}, {10, "-0.1"}})}), scoring(1));
  EXPECT_THAT(read.answer.values.top_ids_NK, ElementsAre(3, -1));
  EXPECT_EQ(read.counts, (Counts{{"padded_ids", 1}}));
}

TEST(VllmAnswers, WhatIsWrongWithAListOfValuesIsSaid) {
  EXPECT_THAT(scoring_error(vllm_scored({vllm_entries({{3, "-0.5"}})}), scoring(1)),
              HasSubstr("state 0: 1 values are listed; expected 2"));
  EXPECT_THAT(scoring_error(vllm_scored({vllm_entries({{3, "-0.5"}, {3, "-1"}})}), scoring(1)),
              HasSubstr("id 3 is listed twice"));
  EXPECT_THAT(scoring_error(vllm_scored({vllm_entries({{3, "0.5"}, {4, "-1"}})}), scoring(1)),
              HasSubstr("no log-probability"));
  EXPECT_THAT(scoring_error(vllm_scored({R"({"99999999999":{"logprob":-1}})"}), scoring(1)),
              HasSubstr("is not an id"));
  EXPECT_THAT(scoring_error(vllm_scored({R"({"-3":{"logprob":-1}})"}), scoring(1)),
              HasSubstr("is not an id"));
  EXPECT_THAT(scoring_error(vllm_scored({R"({"3":{"rank":1},"4":{"logprob":-1}})"}), scoring(1)),
              HasSubstr("id 3 has no logprob"));
  EXPECT_THAT(scoring_error(vllm_scored({R"({"3":{"logprob":"much"}})"}), scoring(1)),
              HasSubstr("is not a number"));
  EXPECT_THAT(scoring_error(vllm_scored({"{}"}), scoring(1)), HasSubstr("no value is listed"));
}

TEST(VllmAnswers, WhatIsWrongWithAnAnswerIsSaid) {
  EXPECT_THAT(scoring_error("[]", scoring(1)), HasSubstr("vLLM"));
  EXPECT_THAT(scoring_error("{}", scoring(1)), HasSubstr("no prompt_logprobs"));
  EXPECT_THAT(scoring_error(R"({"prompt_logprobs":[null]})", scoring(1)), HasSubstr("no choices"));
  EXPECT_THAT(scoring_error(R"({"prompt_logprobs":[null],"choices":[]})", scoring(1)),
              HasSubstr("no choice"));
  EXPECT_THAT(scoring_error(R"({"prompt_logprobs":[null],"choices":[{},{}]})", scoring(1)),
              HasSubstr("several choices"));
  EXPECT_THAT(
      scoring_error(R"({"prompt_logprobs":[null],"prompt_logprobs":[null],"choices":[{}]})", scoring(1)),
      HasSubstr("twice"));
  EXPECT_THAT(scoring_error(vllm_scored({kGoodState}) + "{}", scoring(1)), HasSubstr("vLLM"));
}

TEST(VllmAnswers, GivenIdsAreLookedUpWhereTheyAreListed) {
  VllmScoring asked = scoring(2);
  const std::vector<std::int32_t> ids = {4, 5, -1, 3, 4, 3};
  asked.gather_ids_NG = ids;
  asked.gather_columns = 3;
  const ReadAnswer read = scored(vllm_scored({kGoodState, kGoodState}), asked);
  EXPECT_THAT(read.answer.values.known_NG, ElementsAre(1, 0, 1, 1, 1, 1));
  EXPECT_EQ(read.answer.values.gathered_NG[0], -1.5F);
  EXPECT_TRUE(std::isnan(read.answer.values.gathered_NG[1]));
  EXPECT_EQ(read.answer.values.gathered_NG[3], -0.5F);
  EXPECT_EQ(read.counts, (Counts{{"not_known", 1}}));
}

// numpy.save of [[-1.0, -2.0], [nan, -9999.0]] as '<f4', in base64 (python3 -c with numpy 2.3.5).
const std::string kSavedByNumpy =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsIDIpLCB9ICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAIC/AAAAwAAAwH8APBzG";

TEST(VllmAnswers, ValuesOfEachPositionsOwnIdsComeInAnArray) {
  VllmScoring asked = scoring(2);
  const std::vector<std::int32_t> ids = {4, 5, 6, 7};
  asked.gather_ids_NG = ids;
  asked.gather_columns = 2;
  asked.ids_per_position = true;
  const std::string more = fmt::format(R"("prompt_token_id_logprobs":"{}",)", kSavedByNumpy);
  const ReadAnswer read = scored(vllm_scored({kGoodState, kGoodState}, more), asked);
  EXPECT_THAT(read.answer.values.known_NG, ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(read.answer.values.gathered_NG[0], -1);
  EXPECT_EQ(read.answer.values.gathered_NG[1], -2);
  EXPECT_EQ(read.answer.values.gathered_NG[3], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(read.answer.values.logsumexp_N[0], 0);
  EXPECT_TRUE(std::isnan(read.answer.values.logsumexp_N[1]));
  EXPECT_THAT(scoring_error(vllm_scored({kGoodState, kGoodState}), asked),
              HasSubstr("no prompt_token_id_logprobs"));
}

TEST(VllmAnswers, AnArrayOfAnotherShapeIsRefused) {
  EXPECT_EQ(read_base64_array(kSavedByNumpy, 2, 2).size(), 4U);
  EXPECT_THAT(error_of([] { read_base64_array(kSavedByNumpy, 1, 4); }),
              HasSubstr("expected 'shape': (1, 4)"));
  EXPECT_THAT(error_of([] { read_base64_array(kSavedByNumpy.substr(0, 160), 2, 2); }), HasSubstr("array"));
  EXPECT_THAT(error_of([] { read_base64_array(kSavedByNumpy.substr(0, 180), 2, 2); }),
              HasSubstr("bytes of values"));
  EXPECT_THAT(error_of([] { read_base64_array("!!!", 2, 2); }), HasSubstr("base64"));
  EXPECT_THAT(error_of([] { read_base64_array("", 2, 2); }), HasSubstr("numpy"));
}

// A response of one token, 3, with what is given in place of its parts.
std::string vllm_wrote(const std::string& ids, const std::string& content, const std::string& reason) {
  return fmt::format(R"({{"choices":[{{"finish_reason":"{}","token_ids":{},"logprobs":{{"content":{}}}}}]}})",
                     reason, ids, content);
}
const std::string kWroteThree =
    R"([{"token_id":3,"logprob":-0.5,"rank":1,"top_logprobs":[{"token_id":3,"logprob":-0.5},)"
    R"({"token_id":4,"logprob":-1.5}]}])";

std::string writing_error(const std::string& body, std::int64_t most = 4) {
  WrittenAnswer written;
  try {
    read_vllm_response(body, {.real_ids = kVllmIds, .k = 2, .max_new_tokens = most}, written);
  } catch (const BadAnswer& error) {
    return error.what();
  }
  return "";
}

TEST(VllmAnswers, WhatIsWrongWithAResponseIsSaid) {
  EXPECT_EQ(writing_error(vllm_wrote("[3]", kWroteThree, "stop")), "");
  EXPECT_THAT(writing_error(vllm_wrote("[4]", kWroteThree, "stop")), HasSubstr("others than those"));
  EXPECT_THAT(writing_error(vllm_wrote("[3,4]", kWroteThree, "stop")), HasSubstr("2 ids and values for 1"));
  EXPECT_THAT(writing_error(vllm_wrote("[3]", kWroteThree, "abort")), HasSubstr("abort"));
  EXPECT_THAT(writing_error(vllm_wrote("[3]", kWroteThree, "stop"), 0), HasSubstr("expected 1 to 0"));
  EXPECT_THAT(writing_error(vllm_wrote("[]", "[]", "stop")), HasSubstr("0 tokens"));
  EXPECT_THAT(writing_error(R"({"choices":[{"finish_reason":"stop"}]})"), HasSubstr("lacks one of"));
  EXPECT_THAT(writing_error(vllm_wrote("[3]", R"([{"token_id":3,"logprob":-1,"rank":1}])", "stop")),
              HasSubstr("0 values are listed; expected 2"));
}

TEST(VllmAnswers, AWrittenTokenWithoutARankHasNoValue) {
  WrittenAnswer written;
  read_vllm_response(
      vllm_wrote(
          "[3]",
          R"([{"token_id":3,"logprob":-9999.0,"rank":null,"top_logprobs":[{"token_id":3,"logprob":-1},)"
          R"({"token_id":4,"logprob":-1.5}]}])",
          "stop"),
      {.real_ids = kVllmIds, .k = 2, .max_new_tokens = 4}, written);
  EXPECT_TRUE(std::isnan(written.rollout.logprob_N[0]));
  EXPECT_TRUE(std::isnan(written.rollout.logsumexp_N[0]));
  EXPECT_THAT(written.counts, IsEmpty());
}

}  // namespace
}  // namespace routeopd::engine
