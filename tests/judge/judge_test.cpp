// The error taxonomy without a network: labels, prompts, verdicts, agreement, counts, the cache.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <random>

#include "grade/eval_testing.h"
#include "routeopd/base/hashes.h"
#include "routeopd/judge/judge_files.h"
#include "testing_files.h"

namespace routeopd::judge {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(JudgeLabels, CorrectComesBeforeFormatAndBothBeforeTheJudge) {
  grade::EvalResponse response;
  response.correct = true;
  response.format_ok = false;
  EXPECT_EQ(observed_label(response), Label::kCorrect);
  response.correct = false;
  EXPECT_EQ(observed_label(response), Label::kFormat);
  response.clipped = true;  // plays no part
  EXPECT_EQ(observed_label(response), Label::kFormat);
  response.format_ok = true;
  EXPECT_EQ(observed_label(response), std::nullopt);
}

TEST(JudgeLabels, NamesGoBothWays) {
  for (const Label label : {Label::kReasoning, Label::kArithmetic, Label::kPrematureStop}) {
    EXPECT_EQ(label_of_judge(judge_name_of(label)), label);
    EXPECT_EQ(label_of_judge(name_of(label)), label);
  }
  EXPECT_EQ(label_of_judge("  Premature-Stop \n"), Label::kPrematureStop);
  EXPECT_EQ(label_of_judge("ARITHMETIC ERROR"), Label::kArithmetic);
  for (const char* words :
       {"", "  ", "correct", "format", "unjudged", "<one label>", "reasoning_error, arithmetic_error"})
    EXPECT_EQ(label_of_judge(words), std::nullopt) << words;
  EXPECT_EQ(label_of_judge("reasoning" + std::string(100, ' ')), std::nullopt);
}

TEST(JudgePrompt, ValuesAreNotReadAsPlaceholders) {
  const JudgeCase asked{"P {response}", "R {problem}", "M {extracted_answer} {}", "E {reference_answer}"};
  const std::string user = pass_messages(asked)[1]["content"];
  EXPECT_THAT(
      user, HasSubstr("Problem: P {response}\nReference answer: R {problem}\nModel response: M "
                      "{extracted_answer} {}\nExtracted answer: E {reference_answer}\n\nChoose exactly one"));
}

TEST(JudgePrompt, AdjudicationDoesNotTellThePasses) {
  const JudgeCase asked{"p", "r", "m", "e"};
  const Verdict one{Label::kReasoning, "why one"};
  const Verdict two{Label::kArithmetic, "why two"};
  EXPECT_EQ(adjudication_messages(asked, one, two), adjudication_messages(asked, two, one));
  const std::string user = adjudication_messages(asked, one, two)[1]["content"];
  EXPECT_THAT(user, HasSubstr("arithmetic_error: why two\nreasoning_error: why one\n"));
  EXPECT_THAT(user, HasSubstr("only when the preceding strategy remains valid"));
  EXPECT_THAT(user, HasSubstr("contains no earlier decisive error"));
}

std::string read(std::string_view text) {
  const auto verdict = read_verdict(text);
  return verdict ? fmt::format("{}|{}", name_of(verdict->label), verdict->rationale) : "none";
}

TEST(JudgeVerdict, IsFoundWhereverModelsPutIt) {
  EXPECT_EQ(read(R"({"label": "reasoning_error", "rationale": "wrong case"})"), "reasoning|wrong case");
  EXPECT_EQ(read("```json\n{\"label\": \"arithmetic_error\",\n \"rationale\": \"7*8\"}\n```"),
            "arithmetic|7*8");
  EXPECT_EQ(read(R"(Let {x} be. So: {"rationale": "stops", "label": "Premature-Stop"} Done.)"),
            "premature_stop|stops");
  EXPECT_EQ(read(R"({"label": "reasoning_error"})"), "reasoning|");
  EXPECT_EQ(read(R"({"label": "reasoning_error", "rationale": ["no text"]})"), "reasoning|");
  EXPECT_EQ(read(R"({"label": "<one label>", "rationale": "<one short sentence>"} )"
                 R"({"label": "reasoning", "rationale": "x"})"),
            "reasoning|x");
  EXPECT_EQ(
      read(R"(<think>{"label": "arithmetic_error"}</think>{"label": "reasoning_error", "rationale": "y"})"),
      "reasoning|y");
  EXPECT_EQ(read(R"({"label": "reasoning_error", "rationale": "a } and a \" in {it}"})"),
            "reasoning|a } and a \" in {it}");
  EXPECT_EQ(read(R"({"answer": {"label": "arithmetic_error", "rationale": "inner"}})"), "arithmetic|inner");
}

TEST(JudgeVerdict, ForgivesFormulasAndLineFeeds) {
  EXPECT_EQ(read(R"({"label": "arithmetic_error", "rationale": "\frac{1}{2} \sqrt{3} is \"wrong\""})"),
            "arithmetic|\\frac{1}{2} \\sqrt{3} is \"wrong\"");
  EXPECT_EQ(read("{\"label\": \"arithmetic_error\", \"rationale\": \"two\nlines\"}"), "arithmetic|two lines");
}

TEST(JudgeVerdict, GarbageIsNone) {
  for (const char* text :
       {"", "reasoning_error", "{", "}", "{}", R"({"label": null})", R"({"label": "other"})",
        R"({"label": 3})", R"({"label": "reasoning_error")", R"(["label", "reasoning_error"])",
        R"({"label": "reasoning_error"} {"label": "arithmetic_error"})",
        R"({"label": "reasoning_error", "label": "arithmetic_error"})",
        "<think>{\"label\": \"reasoning\"}</think>"})
    EXPECT_EQ(read(text), "none") << text;
}

TEST(JudgeVerdict, TimeAndSizeAreBounded) {
  const std::string good = R"({"label": "reasoning_error", "rationale": "ok"})";
  EXPECT_EQ(read(std::string(16 << 20U, '{') + good), "reasoning|ok");
  std::string quotes;
  for (int i = 0; i < 1 << 20; ++i) quotes += "{\"";
  EXPECT_EQ(read(quotes), "none");
  EXPECT_EQ(read(quotes + good).substr(0, 4), "reas");
  const std::string marks = "\xE2\x82\xAC";  // three bytes, so that 500 falls inside one
  std::string many;
  for (int i = 0; i < 1000; ++i) many += marks;
  const auto verdict = read_verdict(Json({{"label", "reasoning"}, {"rationale", many}}).dump());
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rationale, many.substr(0, 498));
}

// Kappa from the raw labels rather than from counts: p_e by going through all pairs of responses.
double kappa_by_pairs(const std::vector<int>& one, const std::vector<int>& two) {
  double same = 0;
  double chance = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    same += one[i] == two[i] ? 1 : 0;
    for (const int other : two) chance += one[i] == other ? 1 : 0;
  }
  const auto n = static_cast<double>(one.size());
  return (same / n - chance / n / n) / (1 - chance / n / n);
}

TEST(JudgeAgreement, KappaByHandAndByPairs) {
  // Fleiss' textbook shape: 20 yes/yes, 5 yes/no, 10 no/yes, 15
  // no/no: p_o = 0.7, p_e = 0.5 · 0.6 + 0.5 · 0.4 = 0.5.
  Confusion counts{};
  counts[1][1] = 20;
  counts[1][2] = 5;
  counts[2][1] = 10;
  counts[2][2] = 15;
  const Agreement known = agreement_of(counts);
  EXPECT_EQ(known.n, 50);
  EXPECT_DOUBLE_EQ(*known.share, 0.7);
  EXPECT_DOUBLE_EQ(*known.kappa, 0.4);

  std::mt19937 random(7);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<int> one;
    std::vector<int> two;
    Confusion both{};
    for (int i = 0; i < 60; ++i) {
      one.push_back(static_cast<int>(random() % 5));
      two.push_back(random() % 3 == 0 ? static_cast<int>(random() % 5) : one.back());
      ++both[static_cast<std::size_t>(one.back())][static_cast<std::size_t>(two.back())];
    }
    EXPECT_NEAR(*agreement_of(both).kappa, kappa_by_pairs(one, two), 1e-12);
  }
}

TEST(JudgeAgreement, DegenerateCases) {
  EXPECT_EQ(agreement_of({}).share, std::nullopt);
  EXPECT_EQ(agreement_of({}).kappa, std::nullopt);
  Confusion one_label{};
  one_label[3][3] = 12;
  EXPECT_EQ(agreement_of(one_label).share, 1.0);
  EXPECT_EQ(agreement_of(one_label).kappa, std::nullopt);  // 0 / 0
  Confusion never{};
  never[1][2] = 4;
  EXPECT_EQ(agreement_of(never).share, 0.0);
  EXPECT_EQ(agreement_of(never).kappa, 0.0);
}

// Runs from rows of letters: c correct, f format, r reasoning, a arithmetic, p premature stop, u unjudged;
// upper case: adjudicated.
struct Labelled {
  JudgeInput input;
  std::vector<std::vector<Judgement>> judgements;

  void add(const std::string& name, const std::string& suite, const std::vector<std::string>& rows) {
    if (input.runs.empty() || input.runs.back().name != name) {
      input.runs.push_back({name, name, {}, {}});
      judgements.emplace_back();
    }
    LabelledRun& run = input.runs.back();
    for (grade::EvalResponse& response : grade::responses_of(suite, rows)) {
      const char letter = rows[static_cast<std::size_t>(response.problem[1] - '0')]
                              [static_cast<std::size_t>(response.sample)];
      const std::size_t at = std::string("crapfu").find(static_cast<char>(std::tolower(letter)));
      Judgement judgement;
      judgement.label = kAllLabels.at(at);
      response.format_ok = letter != 'f';
      const bool judged = letter != 'c' && letter != 'f';
      run.case_of.push_back(judged ? std::optional<std::size_t>(0) : std::nullopt);
      if (judged && letter != 'u') {
        judgement.pass1 = judgement.label;
        judgement.pass2 = letter < 'a' ? Label::kPrematureStop : judgement.label;
        judgement.adjudicated = letter < 'a';
      }
      judgement.answered = letter != 'u';
      run.responses.push_back(response);
      judgements.back().push_back(judgement);
    }
  }
};

TEST(JudgeTally, DistributionTransitionsAndAgreement) {
  Labelled labelled;
  labelled.add("A", "aime", {"crr", "apf", "ccc"});
  labelled.add("B", "aime", {"rcc", "cca", "fup"});
  const JudgeTally tally = tally_of(labelled.input, labelled.judgements);
  ASSERT_EQ(tally.scopes.size(), 1U);
  EXPECT_EQ(tally.scopes[0].runs[0].counts, (PerLabel<std::int64_t>{4, 2, 1, 1, 1, 0}));
  EXPECT_EQ(tally.scopes[0].runs[1].counts, (PerLabel<std::int64_t>{4, 1, 1, 1, 1, 1}));
  const TransitionTally& pair = tally.scopes[0].transitions.at(0);
  EXPECT_EQ(pair.into_correct, (PerLabel<std::int64_t>{0, 2, 1, 1, 0, 0}));
  EXPECT_EQ(pair.out_of_correct, (PerLabel<std::int64_t>{0, 1, 0, 1, 1, 1}));
  EXPECT_EQ(tally.all.n, 17);  // the unjudged one has no pair of labels
  EXPECT_EQ(tally.judged.n, 7);
  EXPECT_EQ(tally.unjudged, 1);
  EXPECT_EQ(tally.unanswered, 1);
  EXPECT_EQ(tally.adjudicated, 0);
}

TEST(JudgeTally, AdjudicatedOnesDisagreeAndSuitesAddUp) {
  Labelled labelled;
  labelled.add("A", "aime", {"RA", "cf"});
  labelled.add("A", "amc", {"rr"});
  const JudgeTally tally = tally_of(labelled.input, labelled.judgements);
  ASSERT_EQ(tally.scopes.size(), 3U);
  EXPECT_EQ(tally.scopes[0].suite, "aime");
  EXPECT_EQ(tally.scopes[2].suite, "");
  EXPECT_EQ(tally.scopes[2].runs[0].total, 6);
  EXPECT_EQ(tally.adjudicated, 2);
  EXPECT_DOUBLE_EQ(*tally.all.share, 4.0 / 6);
  EXPECT_DOUBLE_EQ(*tally.judged.share, 2.0 / 4);
  EXPECT_DOUBLE_EQ(tally.scopes[0].runs[0].format_valid, 0.75);
}

TEST(JudgeRequest, PassesAndAttemptsDifferInTheSeedAlone) {
  JudgeSettings settings;
  settings.model = "m";
  const JudgeCase asked{"p", "r", "m", "e"};
  std::vector<std::int64_t> seeds;
  Json first;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    for (const int pass : {0, 1}) {
      Json body = Json::parse(request_body(settings, {&asked, pass, {}}, attempt));
      seeds.push_back(body["seed"]);
      body.erase("seed");
      if (first.is_null()) first = body;
      EXPECT_EQ(body, first);
    }
  }
  EXPECT_EQ(seeds, (std::vector<std::int64_t>{42, 43, 44, 45, 46, 47}));
  for (const char* name : {"model", "messages", "seed", "n", "stream"})
    EXPECT_THAT(error_of([&] { check_extra({{name, 1}}); }), HasSubstr(name));
}

TEST(JudgeKey, IsInNoMessageAlsoWhereItCameInTwoHalves) {
  const ChatSettings settings{net::read_endpoint("http://127.0.0.1:1/v1"), "sk-secret-key", {}, {}};
  const auto message = [&](const std::string& words) {
    return error_of([&] { read_chat_answer({.status = 503, .body = words, .retry_after = {}}, settings); });
  };
  const std::string hidden = "is " + std::string(settings.key.size(), '*') + " wrong?";
  EXPECT_THAT(message("is sk-secret-key wrong?"), HasSubstr(hidden));
  EXPECT_THAT(message("is sk-s\xEE"
                      "ecret-key wrong?"),
              HasSubstr(hidden));
  EXPECT_THAT(message(R"({"error": {"message": "is sk-sécret-key or sk-sécecret-key wrong?"}})"),
              AllOf(HasSubstr("sk-scret-key"), HasSubstr("sk-scecret-key")));
  // Cut in the middle of the key, the message would end with half of it.
  EXPECT_THAT(message(std::string(295, 'x') + "sk-secret-key"), Not(HasSubstr("sk-s")));
}

TEST(JudgeKey, IsNotSentInTheClear) {
  const auto error = [](const char* url, const char* key) {
    return error_of([&] { check_key({net::read_endpoint(url), key, {}, {}}); });
  };
  EXPECT_EQ(error("https://judge.example/v1", "sk-1"), "");
  EXPECT_EQ(error("http://127.0.0.1:8000/v1", "sk-1"), "");
  EXPECT_EQ(error("http://judge.example/v1", ""), "");
  EXPECT_THAT(error("http://judge.example/v1", "sk-1"), HasSubstr("unencrypted"));
  EXPECT_THAT(error("https://judge.example/v1", "sk-1\r\nHost: x"), HasSubstr("header"));
  EXPECT_THAT(error("https://judge.example/v1", "sk-1 "), Not(HasSubstr("sk-1")));
}

TEST(JudgeCache, KeepsAnswersAndCutsATornLine) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "cache.jsonl";
  const ChatAnswer one{"text \xE2\x82\xAC", "stop", 3, 4};
  const ChatAnswer two{std::string(10000, 'x'), "length", 0, 0};
  {
    AnswerCache cache(path);
    EXPECT_EQ(cache.find("a"), std::nullopt);
    cache.add("a", "m", one);
    cache.add("b", "m", two);
    EXPECT_THAT(error_of([&] { AnswerCache again(path); }), HasSubstr("another process"));
  }
  const std::string whole = bytes_in(path);
  const std::size_t first = whole.find('\n') + 1;
  for (const std::size_t size :
       {whole.size(), whole.size() - 1, whole.size() - 5000, first + 1, first, first - 1, std::size_t{0}}) {
    directory.write("cache.jsonl", whole.substr(0, size));
    AnswerCache cache(path);
    EXPECT_EQ(cache.find("a"), size >= first ? std::optional(one) : std::nullopt) << size;
    EXPECT_EQ(cache.find("b"), size == whole.size() ? std::optional(two) : std::nullopt) << size;
    cache.add("c", "m", one);
    EXPECT_EQ(bytes_in(path).substr(0, first),
              size >= first ? whole.substr(0, first) : bytes_in(path).substr(0, first));
  }
  directory.write("cache.jsonl", "{\"key\": 1}\n");
  EXPECT_THAT(error_of([&] { AnswerCache cache(path); }), HasSubstr("cache.jsonl:1: "));
}

TEST(JudgeDirectory, TakesNewOnesAndItsOwn) {
  const TemporaryDirectory directory;
  const auto one = directory.path() / "new" / "one";
  open_judge_directory(one, "m");
  open_judge_directory(one, "m");
  directory.write("new/one/cache.jsonl", "");
  directory.write("new/one/summary.json", R"({"judge": {"model": "m"}})");
  open_judge_directory(one, "m");
  EXPECT_THAT(error_of([&] { open_judge_directory(one, "n"); }), HasSubstr("labels of another judge, m"));
  directory.write("new/one/responses.jsonl", "");
  EXPECT_THAT(error_of([&] { open_judge_directory(one, "m"); }), HasSubstr("other files"));
  EXPECT_THAT(error_of([&] { open_judge_directory(directory.path(), "m"); }), HasSubstr("other files"));
  directory.write("file", "");
  EXPECT_THAT(error_of([&] { open_judge_directory(directory.path() / "file", "m"); }),
              HasSubstr("cannot be made"));
}

}  // namespace
}  // namespace routeopd::judge
