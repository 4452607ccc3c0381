// The laboratory's task: problems whose answers follow from their numbers, splits that never meet, and a
// tokenizer that has every word.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "routeopd/grade/answer.h"
#include "routeopd/lab/make.h"
#include "routeopd/tokenizer/tokenizer.h"
#include "testing_files.h"

namespace routeopd::lab {
namespace {

constexpr std::uint32_t kManyProblems = 2000;

std::string canonical(const Problem& problem) {
  std::string text = std::to_string(problem.start);
  for (const std::int32_t move : problem.moves) text += fmt::format(" {}", move);
  return text;
}

TEST(Task, AnswersFollowAndStayInRange) {
  for (std::uint32_t i = 0; i < kManyProblems; ++i) {
    const Problem problem = make_problem(1, i % 2 == 0 ? Split::kTrain : Split::kHeldOut, i);
    std::int32_t value = problem.start;
    for (const std::int32_t move : problem.moves) {
      EXPECT_TRUE(move != 0 && std::abs(move) <= 9);
      value += move;
      EXPECT_TRUE(value >= 0 && value <= kLargestNumber);
    }
    EXPECT_EQ(value, problem.answer);
    EXPECT_TRUE(problem.moves.size() >= 2 && problem.moves.size() <= 4);
  }
}

TEST(Task, SplitsNeverMeet) {
  std::set<std::string> train, heldout;
  for (std::uint32_t i = 0; i < 4 * kManyProblems; ++i)
    train.insert(canonical(make_problem(1, Split::kTrain, i)));
  for (std::uint32_t i = 0; i < kManyProblems; ++i)
    heldout.insert(canonical(make_problem(2, Split::kHeldOut, i)));
  EXPECT_GT(heldout.size(), kManyProblems / 2);
  for (const std::string& problem : heldout) EXPECT_EQ(train.count(problem), 0U) << problem;
}

TEST(Task, IsAddressed) {
  EXPECT_EQ(make_problem(5, Split::kTrain, 77).text(), make_problem(5, Split::kTrain, 77).text());
  EXPECT_NE(make_problem(5, Split::kTrain, 77).text(), make_problem(5, Split::kTrain, 78).text());
  EXPECT_NE(make_problem(5, Split::kTrain, 77).text(), make_problem(6, Split::kTrain, 77).text());
}

TEST(Task, RightSolutionsAreRightAndHabitsAreNot) {
  std::uint32_t right = 0;
  for (std::uint32_t i = 0; i < kManyProblems; ++i) {
    const Problem problem = make_problem(1, Split::kTrain, i);
    const std::string answer = std::to_string(problem.answer);
    const std::string good = write_solution(problem, 1, i, kRightStyle),
                      bad = write_solution(problem, 1, i, kBaseStyle);
    EXPECT_TRUE(grade::grade_response(good, answer).correct) << good;
    EXPECT_TRUE(grade::grade_response(bad, answer).format_ok) << bad;
    right += grade::grade_response(bad, answer).correct ? 1 : 0;
  }
  EXPECT_GT(right, kManyProblems / 10);
  EXPECT_LT(right, kManyProblems / 2);
}

// Responses of 10 to 60 tokens, every word a token of its own, nothing spelt in bytes but line feeds and
// marks.
TEST(Task, TokenizerHasEveryWord) {
  const TemporaryDirectory directory;
  directory.write("tokenizer.json", tokenizer_json().dump());
  const tokenizer::Tokenizer tokenizer(directory.path());
  EXPECT_GE(tokenizer.real_ids() - 256, 200);
  for (std::uint32_t i = 0; i < kManyProblems; ++i) {
    const Problem problem = make_problem(1, Split::kTrain, i);
    for (const Style& style : {kRightStyle, kTeacherStyle, kBaseStyle}) {
      const std::string solution = write_solution(problem, 1, i, style);
      const auto ids = tokenizer.encode(solution);
      EXPECT_EQ(tokenizer.decode(ids), solution);
      EXPECT_GE(ids.size() + 1, 10U) << solution;  // with the end of text
      EXPECT_LE(ids.size() + 1, 60U) << solution;
      for (const std::int32_t id : ids)
        EXPECT_TRUE(id >= 256 || tokenizer.token_of(id) == ".")
            << tokenizer.token_of(id) << " in " << solution;
    }
    const std::string asked = "Problem: " + problem.text() + "\nSolution:";
    for (const std::int32_t id : tokenizer.encode(asked)) {
      const std::string word = tokenizer.decode({&id, 1});
      EXPECT_TRUE(id >= 256 || std::string(".,?:\n").find(word) != std::string::npos)
          << word << " in " << asked;
    }
  }
}

}  // namespace
}  // namespace routeopd::lab
