// Eval directories as they are written and read, and what is wrong with them when they are not whole.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/eval_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "grade/eval_testing.h"
#include "routeopd/grade/suite_summary.h"

namespace routeopd::grade {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json promise(int problems, int samples) {
  return {{"sha256", "abc"}, {"n", problems}, {"samples", samples}};
}

std::string error_for(const Json& summary, const std::vector<EvalResponse>& responses) {
  const EvalDirectory directory;
  directory.write(summary, responses);
  return error_of([&] { read_eval_directory(directory.path()); });
}

TEST(EvalFiles, AResponseSurvivesItsLine) {
  const EvalResponse response{"aime", "p\"1", 3, "so\n\\boxed{7} é", "7", true, true, false, 19};
  const std::string line = line_of(response);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(line.back(), '\n');
  const EvalResponse back = response_of(Json::parse(line), "here");
  EXPECT_EQ(json_of(back), json_of(response));
  EXPECT_EQ(back.response, response.response);
  EXPECT_EQ(back.tokens, 19);
}

TEST(EvalFiles, HalfACharacterDoesNotSpoilTheFile) {
  const std::string line = line_of({.suite = "s", .problem = "p", .response = "half: \xC3", .extracted = ""});
  EXPECT_EQ(Json::parse(line)["response"], "half: \xEF\xBF\xBD");
}

TEST(EvalFiles, ProblemsKeepTheirFirstOrderAndSuitesAreSorted) {
  const EvalDirectory directory;
  std::vector<EvalResponse> responses = responses_of("math", {"10", "01", "11"});
  std::reverse(responses.begin(), responses.end());
  for (const EvalResponse& response : responses_of("aime", {"1"})) responses.push_back(response);
  directory.write(summary_of({{"math", promise(3, 2)}, {"aime", promise(1, 1)}}), responses);
  const EvalRun run = read_eval_directory(directory.path());
  EXPECT_EQ(run.summary["seed"], 42);
  EXPECT_EQ(run.directory, directory.path().string());
  ASSERT_EQ(run.suites.size(), 2U);
  EXPECT_EQ(run.suites[0].name, "aime");
  EXPECT_EQ(run.suites[1].name, "math");
  EXPECT_THAT(run.suites[1].problems, ElementsAre("p2", "p1", "p0"));
  EXPECT_EQ(run.suites[1].correctness.problems, 3);
  EXPECT_EQ(run.suites[1].correctness.samples, 2);
  EXPECT_THAT(run.suites[1].correctness.correct_PS, ElementsAre(1, 1, 0, 1, 1, 0));
}

TEST(EvalFiles, WhatIsMissingOrDoubledIsNamed) {
  const Json summary = summary_of({{"math", promise(3, 2)}});
  const std::vector<EvalResponse> whole = responses_of("math", {"10", "01", "11"});
  EXPECT_EQ(error_for(summary, whole), "");
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const std::string pair =
        "suite math: problem " + whole[i].problem + ", sample " + std::to_string(whole[i].sample);
    std::vector<EvalResponse> less = whole;
    less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_THAT(error_for(summary, less), HasSubstr(pair + " is missing, expected 2 samples"));
    std::vector<EvalResponse> more = whole;
    more.insert(more.begin(), whole[i]);
    EXPECT_THAT(error_for(summary, more), HasSubstr(pair + " is there twice"));
    less.push_back(whole[i == 0 ? 1 : 0]);  // as many lines as expected
    EXPECT_THAT(error_for(summary, less), HasSubstr("is there twice"));
  }
  EXPECT_THAT(error_for(summary, responses_of("math", {"10", "01"})),
              HasSubstr("responses to 2 problems, expected the 3 of summary.json"));
  EXPECT_THAT(error_for(summary, {}), HasSubstr("suite math: has no responses"));
  EXPECT_THAT(error_for(summary, responses_of("math", {"10", "011"})),
              HasSubstr("responses.jsonl:5: suite math, problem p1: sample 2 is past the 2 samples"));
  EXPECT_THAT(error_for(summary, responses_of("gsm", {"1"})),
              HasSubstr("responses.jsonl:1: suite gsm is not in summary.json"));
}

TEST(EvalFiles, ASummaryThatCannotBeHeldToIsRefused) {
  const EvalDirectory directory;
  const auto error = [&] { return error_of([&] { read_eval_directory(directory.path()); }); };
  EXPECT_THAT(error(), AllOf(HasSubstr("summary.json: cannot be read"), HasSubstr("eval directory?")));
  for (const char* text : {"", "[]", "{\"a\":", "nonsense"}) {
    directory.write_text("summary.json", text);
    EXPECT_THAT(error(), AllOf(HasSubstr("summary.json: expected"), HasSubstr("JSON"))) << text;
  }
  for (const char* field : {"decoding", "seed", "template", "extractor", "suites"}) {
    Json summary = summary_of({{"math", promise(1, 1)}});
    summary.erase(field);
    EXPECT_THAT(error_for(summary, {}), HasSubstr(std::string("summary.json: ") + field + " is missing"));
  }
  for (const char* field : {"sha256", "n", "samples"}) {
    Json suite = promise(1, 1);
    suite.erase(field);
    EXPECT_THAT(error_for(summary_of({{"math", suite}}), {}),
                HasSubstr(std::string("suite math: ") + field + " is missing"));
  }
  EXPECT_THAT(error_for(summary_of({{"math", promise(1, -1)}}), {}),
              HasSubstr("suite math: samples: expected a whole number from 0, got -1"));
  EXPECT_THAT(error_for(summary_of({{"math", 3}}), {}), HasSubstr("suite math: expected an object, got 3"));
  EXPECT_THAT(error_for(summary_of(Json::array()), {}), HasSubstr("suites: expected an object"));
  directory.write(summary_of({{"math", promise(1, 1)}}), {});
  std::filesystem::remove(directory.path() / "responses.jsonl");
  EXPECT_THAT(error(), HasSubstr("responses.jsonl: cannot be read"));
}

TEST(EvalFiles, ALineWithAnotherTypeIsNamed) {
  const Json good = json_of(responses_of("math", {"1"})[0]);
  const auto error_with = [&](const char* field, const Json& value) {
    Json line = good;
    line[field] = value;
    return error_of([&] { response_of(line, "F:7"); });
  };
  EXPECT_EQ(error_with("sample", 0), "");
  EXPECT_EQ(error_with("sample", -1), "F:7: sample: expected a whole number from 0, got -1");
  EXPECT_EQ(error_with("sample", 0.5), "F:7: sample: expected a whole number from 0, got 0.5");
  EXPECT_EQ(error_with("tokens", UINT64_MAX),
            "F:7: tokens: expected a whole number from 0, got 18446744073709551615");
  EXPECT_EQ(error_with("correct", 1), "F:7: correct: expected true or false, got 1");
  EXPECT_EQ(error_with("problem", 1), "F:7: problem: expected a string, got 1");
  for (const auto& item : good.items()) {
    Json line = good;
    line.erase(item.key());
    EXPECT_EQ(error_of([&] { response_of(line, "F:7"); }), "F:7: " + item.key() + " is missing");
  }
}

TEST(SuiteSummary, SaysWhatTheResponsesSay) {
  // Votes of p0: "1", a tie for the earlier "1", then "2" twice; p1: nothing, then "7", then "\\sqrt{50}" and
  // "5\\sqrt2" are one answer; p2: nothing but "5" at last, for what cannot be read has no vote.
  std::vector<EvalResponse> responses = responses_of("math", {"1000", "0011", "0010"});
  const std::string extracted[] = {"1", "2", "3", "2", "", "7", "\\sqrt{50}", "5\\sqrt2", "", "", "5", ""};
  for (std::size_t i = 0; i < 12; ++i) {
    responses[i].extracted = extracted[i];
    responses[i].format_ok = !extracted[i].empty();
    responses[i].clipped = i >= 9;
    responses[i].tokens = static_cast<std::int64_t>(10 * (12 - i));
  }
  std::reverse(responses.begin(), responses.end());
  const Json summary = suite_summary(responses, {.draws = 200, .level = 0.9});
  EXPECT_EQ(summary["n"], 3);
  EXPECT_EQ(summary["samples"], 4);
  EXPECT_DOUBLE_EQ(summary["avg"], 1.0 / 3);
  // All three draws are a problem of 1/4 with a chance of 8/27;
  // at least two are p1, of 1/2, with 7/27, all three with 1/27.
  EXPECT_DOUBLE_EQ(summary["avg_interval"][0], 0.25);
  EXPECT_DOUBLE_EQ(summary["avg_interval"][1], 1.25 / 3);
  EXPECT_EQ(summary["pass@k"].size(), 3U);
  EXPECT_DOUBLE_EQ(summary["pass@k"]["1"], 1.0 / 3);
  EXPECT_DOUBLE_EQ(summary["pass@k"]["2"], (1.0 / 2 + 5.0 / 6 + 1.0 / 2) / 3);
  EXPECT_DOUBLE_EQ(summary["pass@k"]["4"], 1);
  EXPECT_EQ(summary["maj@k"], Json({{"1", 1.0 / 3}, {"2", 1.0 / 3}, {"4", 2.0 / 3}}));
  EXPECT_DOUBLE_EQ(summary["length"]["mean"], 65);
  EXPECT_DOUBLE_EQ(summary["length"]["p10"], 21);
  EXPECT_DOUBLE_EQ(summary["length"]["p50"], 65);
  EXPECT_DOUBLE_EQ(summary["length"]["p90"], 109);
  EXPECT_DOUBLE_EQ(summary["length"]["max"], 120);
  EXPECT_EQ(summary["clip_rate"], 0.25);
  EXPECT_DOUBLE_EQ(summary["format_rate"], 8.0 / 12);
}

TEST(SuiteSummary, RefusesWhatIsNotOneWholeSuite) {
  std::vector<EvalResponse> responses = responses_of("math", {"10", "01"});
  responses.pop_back();
  const auto error = [&] { return error_of([&] { suite_summary(responses, {}); }); };
  EXPECT_THAT(error(), HasSubstr("suite math: problem p1, sample 1 is missing"));
  responses.push_back(responses_of("gsm", {"1"})[0]);
  EXPECT_THAT(error(), HasSubstr("suite math: has a response of suite gsm"));
  responses.back() = responses[0];
  responses.back().sample = -1;
  EXPECT_THAT(error(), HasSubstr("sample -1"));
  responses.clear();
  EXPECT_THAT(error(), HasSubstr("without responses"));
}

}  // namespace
}  // namespace routeopd::grade
