// The laboratory's checker: it tells apart every kind of slip that the task can write, and takes no harm from
// what it cannot read.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "routeopd/grade/answer.h"
#include "testing_files.h"

namespace routeopd::lab {
namespace {

using judge::Label;

constexpr std::uint32_t kManyResponses = 1000;

grade::EvalResponse graded(const Problem& problem, const std::string& text) {
  const grade::Grade grade = grade::grade_response(text, std::to_string(problem.answer));
  grade::EvalResponse response;
  response.suite = "heldout";
  response.response = text;
  response.extracted = grade.extracted;
  response.correct = grade.correct;
  response.format_ok = grade.format_ok;
  return response;
}

Problem example() {
  const auto problem =
      parse_problem("Mia has 12 apples. Then Mia buys 5, finds 4 and loses 3. How many apples are left?");
  EXPECT_TRUE(problem);
  return problem.value_or(Problem{});
}

Label label(const std::string& text) {
  return label_of(example(), graded(example(), text));
}

TEST(Checker, ReadsEveryProblemBack) {
  for (std::uint32_t i = 0; i < kManyResponses; ++i) {
    const Problem problem = make_problem(3, i % 2 == 0 ? Split::kTrain : Split::kHeldOut, i);
    const auto read = parse_problem(problem.text());
    ASSERT_TRUE(read) << problem.text();
    EXPECT_EQ(read->name, problem.name);
    EXPECT_EQ(read->start, problem.start);
    EXPECT_EQ(read->moves, problem.moves);
    EXPECT_EQ(read->answer, problem.answer);
  }
}

TEST(Checker, TakesNothingElseForAProblem) {
  for (const char* text :
       {"", "Mia", "Mia has 12 apples.",
        "Mia has x apples. Then Mia buys 5 and loses 3. How many apples are left?",
        "Mia has 12 apples. Then Mia buys 5 and burns 3. How many apples are left?",
        "Mia has 12 apples. Then Tom buys 5 and loses 3. How many apples are left?",
        "Mia has 12 apples. Then Mia buys 5 and loses 3. How many pears are left?",
        "Mia has 12 apples. Then Mia buys 5 and loses -3. How many apples are left?",
        "Mia has 99999999999 apples. Then Mia buys 5 and loses 3. How many apples are left?",
        "Mia has 12 apples. Then Mia buys 5 and loses 3. How many apples are left? Say why."})
    EXPECT_FALSE(parse_problem(text)) << text;
  EXPECT_FALSE(parse_problem(std::string(100000, 'a')));
}

// Every solution of a style with one slip at rate 1: right by chance or by the problem, else of that kind
// alone.
std::map<Label, int> labels_of(const Style& style) {
  std::map<Label, int> counts;
  for (std::uint32_t i = 0; i < kManyResponses; ++i) {
    const Problem problem = make_problem(4, Split::kHeldOut, i);
    const std::string text = write_solution(problem, 4, i, style);
    ++counts[label_of(problem, graded(problem, text))];
  }
  return counts;
}

TEST(Checker, NamesEverySlipOfTheTask) {
  for (const bool base_words : {false, true}) {
    const auto only = [&](const Style& style, Label kind, int at_least) {
      std::map<Label, int> counts = labels_of(style);
      EXPECT_GE(counts[kind], at_least);
      EXPECT_EQ(counts[kind] + counts[Label::kCorrect], static_cast<int>(kManyResponses));
    };
    const Style plain{.address = 9, .base_words = base_words};
    EXPECT_EQ(labels_of(plain)[Label::kCorrect], static_cast<int>(kManyResponses));
    Style style = plain;
    style.off_by_one = 1;  // where a ten is crossed, which is not in every problem
    only(style, Label::kArithmetic, kManyResponses / 2);
    style = plain;
    style.wrong_operand = 1;
    only(style, Label::kReasoning, kManyResponses / 2);
    style = plain;
    style.wrong_operator = 1;
    only(style, Label::kReasoning, kManyResponses / 2);
    style = plain;
    style.guess = 1;
    only(style, Label::kReasoning, kManyResponses / 2);
    style = plain;
    style.early_end = 1;
    only(style, Label::kPrematureStop, kManyResponses * 9 / 10);
  }
}

TEST(Checker, TheFirstMistakeDecides) {
  EXPECT_EQ(label(" We start with 12. Next 12 plus 5 makes 17. Now 17 and 4 is 21. So 21 less 3 gives 18. "
                  "The final answer is 18."),
            Label::kCorrect);
  EXPECT_EQ(
      label(" We start with 12. Next 12 plus 5 makes 18. Now 18 minus 4 is 14. The final answer is 14."),
      Label::kArithmetic)
      << "the wrong operator comes later";
  EXPECT_EQ(label(" We start with 12. Next 12 minus 5 makes 8. The final answer is 8."), Label::kReasoning)
      << "the wrong result comes later";
  EXPECT_EQ(label(" We start with 12. Next 12 plus 5 makes 17. The final answer is 17."),
            Label::kPrematureStop);
  EXPECT_EQ(label(" We start with 12. The final answer is 12."), Label::kPrematureStop);
  EXPECT_EQ(label(" We start with 12. Next 12 plus 5 makes 17. The final answer is 19."), Label::kReasoning)
      << "an answer that no step gave";
  EXPECT_EQ(label(" Clearly we can say the final answer is 12."), Label::kReasoning);
  EXPECT_EQ(label(" We start with 13. Next 13 plus 5 makes 18. The final answer is 13."), Label::kReasoning);
  EXPECT_EQ(label(" Initially Mia has 12. Next 12 plus 5 makes 17. The final answer is 17."),
            Label::kPrematureStop);
  EXPECT_EQ(label(" Initially Tom has 12. Next 12 plus 5 makes 17. The final answer is 17."),
            Label::kReasoning);
  EXPECT_EQ(label(" We start with 12. Next 11 plus 5 makes 17. The final answer is 17."), Label::kReasoning);
  EXPECT_EQ(label(" We start with 12. Next 12 plus 5 makes 17. Now 17 and 4 is 21. So 21 less 3 gives 18. "
                  "Then 18 less 1 "
                  "gives 17. The final answer is 17."),
            Label::kReasoning)
      << "one step too many";
  EXPECT_EQ(label(" We start with 12. Next 12 plus 5 makes 17."), Label::kFormat);
  EXPECT_EQ(label(""), Label::kFormat);
}

TEST(Checker, TakesAnyText) {
  std::vector<std::string> pieces = {".",
                                     " ",
                                     "\n",
                                     "12",
                                     "5",
                                     "99999999999999999999",
                                     "-3",
                                     "final answer is",
                                     "answer",
                                     "\xff\xfe",
                                     "Next 12 plus 5 makes"};
  for (const std::string& word : vocabulary()) pieces.push_back(word);
  std::mt19937_64 random(7);
  const Problem problem = example();
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (std::uint64_t length = random() % 60; length > 0; --length) text += pieces[random() % pieces.size()];
    const Label found = check_solution(problem, text);
    EXPECT_TRUE(found == Label::kReasoning || found == Label::kArithmetic || found == Label::kPrematureStop);
  }
}

TEST(Checker, LabelsADirectory) {
  const TemporaryDirectory directory;
  const Problem problem = example();
  {
    std::ofstream file(directory.path() / "responses.jsonl");
    std::int64_t sample = 0;
    for (const char* text : {" Clearly we can say the final answer is 12.", " nothing",
                             " We start with 12. Next 12 plus 5 makes 17. The final answer is 17."}) {
      grade::EvalResponse response = graded(problem, text);
      response.problem = "p1";
      response.sample = sample++;
      file << grade::line_of(response);
    }
  }
  label_directory(directory.path(), {{"p1", problem}});
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
  EXPECT_THAT(error_of([&] { label_directory(directory.path(), {}); }),
              testing::HasSubstr("p1 is none of the laboratory's"));
}

}  // namespace
}  // namespace routeopd::lab
