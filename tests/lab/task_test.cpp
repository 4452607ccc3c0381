// What every family of tasks promises: answers that follow, splits that never meet, solutions that are right
// or have habits, a vocabulary with every word, and no dependence on who asks.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "routeopd/grade/answer.h"
#include "routeopd/lab/checker.h"
#include "routeopd/lab/make.h"
#include "routeopd/tokenizer/tokenizer.h"
#include "testing_files.h"

namespace routeopd::lab {
namespace {

using judge::Label;
using testing::HasSubstr;

constexpr std::uint32_t kManyProblems = 1500;
constexpr std::array kSplits = {Split::kTrain, Split::kValidation, Split::kHeldOut};
constexpr std::array kWriters = {Writer::kRight, Writer::kTeacher, Writer::kBase};

grade::EvalResponse graded(const std::string& text, const std::string& answer) {
  const grade::Grade grade = grade::grade_response(text, answer);
  grade::EvalResponse response;
  response.suite = "heldout";
  response.response = text;
  response.extracted = grade.extracted;
  response.correct = grade.correct;
  response.format_ok = grade.format_ok;
  return response;
}

class EveryTask : public testing::TestWithParam<std::string> {
 protected:
  const Task& task() const { return task_named(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Families, EveryTask, testing::ValuesIn(task_names()),
                         [](const auto& family) { return family.param; });

TEST(Task, FamiliesAreKnownByName) {
  EXPECT_THAT(task_names(), testing::ElementsAre("sums", "lists"));
  EXPECT_EQ(error_of([] { task_named("sets"); }), "family: expected sums | lists, got sets");
}

TEST_P(EveryTask, SplitsNeverMeet) {
  std::map<Split, std::set<std::string>> keys;
  for (const Split split : kSplits) {
    for (std::uint32_t i = 0; i < 2 * kManyProblems; ++i) {
      const Problem problem = task().make_problem(1 + i % 2, split, i);
      EXPECT_EQ(split_of(problem.key), split);
      keys[split].insert(problem.key);
    }
    EXPECT_GT(keys[split].size(), kManyProblems) << "most problems differ";
  }
  for (const std::string& key : keys[Split::kTrain]) {
    EXPECT_EQ(keys[Split::kHeldOut].count(key), 0U) << key;
    EXPECT_EQ(keys[Split::kValidation].count(key), 0U) << key;
  }
  for (const std::string& key : keys[Split::kHeldOut])
    EXPECT_EQ(keys[Split::kValidation].count(key), 0U) << key;
}

// FNV-1a of the empty text is 0xcbf29ce484222325, of "a" 0xaf63dc4c8601ec8c.
TEST(Task, SplitsAreAHashOfTheKey) {
  EXPECT_EQ(split_of(""), Split::kTrain);   // …5
  EXPECT_EQ(split_of("a"), Split::kTrain);  // …c
  std::map<Split, int> counts;
  for (int i = 0; i < 16000; ++i) ++counts[split_of(std::to_string(i))];
  EXPECT_NEAR(counts[Split::kHeldOut], 2000, 200);
  EXPECT_NEAR(counts[Split::kValidation], 1000, 150);
}

TEST_P(EveryTask, IsAddressed) {
  const auto text = [&](std::uint64_t seed, std::uint32_t number) {
    return task().make_problem(seed, Split::kTrain, number).text;
  };
  EXPECT_EQ(text(5, 77), text(5, 77));
  EXPECT_NE(text(5, 77), text(5, 78));
  EXPECT_NE(text(5, 77), text(6, 77));
  for (const Writer writer : kWriters) {
    const auto solution = [&](std::uint64_t seed, std::uint32_t number) {
      return task().write_solution(text(5, 2), seed, number, writer);
    };
    EXPECT_EQ(solution(5, 77), solution(5, 77));
    std::set<std::string> different;
    for (std::uint32_t i = 0; i < 50; ++i) different.insert(solution(5, i));
    EXPECT_GT(different.size(), 10U);
  }
}

TEST_P(EveryTask, ReadsItsOwnProblemsAndNoOthers) {
  const Task& other = task_named(GetParam() == "sums" ? "lists" : "sums");
  for (std::uint32_t i = 0; i < kManyProblems; ++i) {
    const std::string text = task().make_problem(3, kSplits[i % 3], i).text;
    EXPECT_TRUE(task().reads(text)) << text;
    EXPECT_FALSE(other.reads(text)) << text;
    EXPECT_FALSE(task().reads(text + " Say why.")) << text;
    EXPECT_FALSE(task().reads(text.substr(1))) << text;
  }
  EXPECT_FALSE(task().reads(""));
  EXPECT_FALSE(task().reads(std::string(100000, 'a')));
  EXPECT_THAT(error_of([&] { task().check_solution("What is 2 + 2?", " 4."); }),
              HasSubstr(GetParam() + ": expected a problem of the family, got \"What is 2 + 2?\""));
  EXPECT_THAT(error_of([&] { task().write_solution("Why?", 1, 1, Writer::kRight); }), HasSubstr("Why?"));
}

TEST_P(EveryTask, RightSolutionsAreRightAndHabitsAreNot) {
  std::map<Writer, std::map<Label, int>> labels;
  for (std::uint32_t i = 0; i < kManyProblems; ++i) {
    const Problem problem = task().make_problem(1, Split::kTrain, i);
    for (const Writer writer : kWriters) {
      const std::string text = task().write_solution(problem.text, 1, i, writer);
      const Label label = label_of(task(), problem.text, graded(text, problem.answer));
      EXPECT_NE(label, Label::kFormat) << text;
      ++labels[writer][label];
    }
  }
  const int all = static_cast<int>(kManyProblems);
  EXPECT_EQ(labels[Writer::kRight][Label::kCorrect], all);
  EXPECT_GT(labels[Writer::kTeacher][Label::kCorrect], all * 7 / 10);
  EXPECT_LT(labels[Writer::kTeacher][Label::kCorrect], all);
  EXPECT_GT(labels[Writer::kBase][Label::kCorrect], all / 10);
  EXPECT_LT(labels[Writer::kBase][Label::kCorrect], all / 2);
  for (const Label label : {Label::kArithmetic, Label::kPrematureStop, Label::kReasoning})
    EXPECT_GT(labels[Writer::kBase][label], all / 50) << judge::name_of(label);
}

// Responses of at most 100 tokens, every word a token of its own, nothing spelt in bytes but line feeds and
// marks.
TEST_P(EveryTask, TokenizerHasEveryWord) {
  const TemporaryDirectory directory;
  directory.write("tokenizer.json", tokenizer_json(task()).dump());
  const tokenizer::Tokenizer tokenizer(directory.path());
  for (std::uint32_t i = 0; i < kManyProblems; ++i) {
    const Problem problem = task().make_problem(1, kSplits[i % 3], i);
    for (const Writer writer : kWriters) {
      const std::string solution = task().write_solution(problem.text, 1, i, writer);
      const auto ids = tokenizer.encode(solution);
      EXPECT_EQ(tokenizer.decode(ids), solution);
      EXPECT_LE(ids.size() + 1, 100U) << solution;  // with the end of text
      for (const std::int32_t id : ids)
        EXPECT_TRUE(id >= 256 || tokenizer.token_of(id) == ".")
            << tokenizer.token_of(id) << " in " << solution;
    }
    const std::string asked = "Problem: " + problem.text + "\nSolution:";
    for (const std::int32_t id : tokenizer.encode(asked)) {
      const std::string word = tokenizer.decode({&id, 1});
      EXPECT_TRUE(id >= 256 || std::string(".,?:\n").find(word) != std::string::npos)
          << word << " in " << asked;
    }
  }
}

TEST_P(EveryTask, CheckerTakesAnyText) {
  std::vector<std::string> pieces = {
      ".", " ", "\n", "12", "5", "99999999999999999999", "-3", "final answer is", "answer", "\xff\xfe"};
  for (const std::string& word : task().vocabulary()) pieces.push_back(word);
  std::mt19937_64 random(7);
  const std::string problem = task().make_problem(1, Split::kTrain, 0).text;
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (std::uint64_t length = random() % 60; length > 0; --length) text += pieces[random() % pieces.size()];
    const Label found = task().check_solution(problem, text);
    EXPECT_TRUE(found == Label::kReasoning || found == Label::kArithmetic || found == Label::kPrematureStop);
  }
}

TEST(Checker, LabelsADirectory) {
  const TemporaryDirectory directory;
  const std::string problem =
      "Mia has 12 apples. Then Mia buys 5, finds 4 and loses 3. How many apples are left?";
  {
    std::ofstream file(directory.path() / "responses.jsonl");
    std::int64_t sample = 0;
    for (const char* text : {" Clearly we can say the final answer is 12.", " nothing",
                             " We start with 12. Next 12 plus 5 makes 17. The final answer is 17."}) {
      grade::EvalResponse response = graded(text, "18");
      response.problem = "p1";
      response.sample = sample++;
      file << grade::line_of(response);
    }
  }
  label_directory(directory.path(), task_named("sums"), {{"p1", problem}});
  std::ifstream labels(directory.path() / "labels.jsonl");
  std::vector<std::string> found;
  for (std::string line; std::getline(labels, line);) {
    const Json read = Json::parse(line);
    EXPECT_EQ(read["suite"], "heldout");
    EXPECT_EQ(read["problem"], "p1");
    EXPECT_EQ(read["sample"], found.size());
    EXPECT_TRUE(read["pass1"].is_null());
    found.push_back(read["label"]);
  }
  EXPECT_EQ(found, (std::vector<std::string>{"reasoning", "format", "premature_stop"}));
  EXPECT_THAT(error_of([&] { label_directory(directory.path(), task_named("sums"), {}); }),
              HasSubstr("p1 is none of the laboratory's"));
}

}  // namespace
}  // namespace routeopd::lab
