// The family "sums": its problems read back, and its checker tells apart every kind of slip.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "routeopd/lab/sums_solutions.h"

namespace routeopd::lab {
namespace {

using judge::Label;

constexpr std::uint32_t kManySums = 1500;

SumsProblem some_sums(std::uint32_t number) {
  Dice dice(11, {.step = 0, .prompt = number});
  return draw_sums(dice);
}

TEST(Sums, AreReadBackAndStayInRange) {
  std::map<Manner, int> manners;
  std::map<Operation, int> operations;
  for (std::uint32_t i = 0; i < kManySums; ++i) {
    const SumsProblem problem = some_sums(i);
    const auto read = parse_sums(problem.text());
    ASSERT_TRUE(read) << problem.text();
    EXPECT_EQ(read->key(), problem.key());
    EXPECT_EQ(read->manner, problem.manner);
    EXPECT_EQ(read->answer(), problem.answer());
    EXPECT_EQ(read->text(), problem.text());
    EXPECT_TRUE(problem.moves.size() >= kFewestMoves && problem.moves.size() <= kMostMoves);
    std::int32_t value = problem.start;
    for (const SumsMove& move : problem.moves) {
      const std::map<Operation, std::int32_t> results = {{Operation::kPlus, value + move.size},
                                                         {Operation::kMinus, value - move.size},
                                                         {Operation::kTimes, 2 * value},
                                                         {Operation::kOver, value / 2}};
      EXPECT_EQ(move.applied_to(value), results.at(move.operation)) << "nothing is cut at the ends";
      EXPECT_TRUE(move.operation != Operation::kOver || value % 2 == 0);
      value = move.applied_to(value);
      ++operations[move.operation];
    }
    ++manners[problem.manner];
  }
  EXPECT_EQ(operations.size(), 4U);
  for (const auto& [operation, count] : operations) EXPECT_GT(count, 200);
  for (const auto& [manner, count] : manners) EXPECT_NEAR(count, kManySums / 3, 100);
}

TEST(Sums, TakeNothingElseForAProblem) {
  const std::string right =
      "Mia has 12 apples. Then Mia buys 5, doubles all and loses 3. How many apples are left?";
  EXPECT_TRUE(parse_sums(right));
  EXPECT_EQ(parse_sums(right)->key(), "12+5*2-3");
  EXPECT_EQ(parse_sums(right)->answer(), 31);
  for (const char* text :
       {"", "Mia", "Mia has 12 apples.", "Mia has 12 apples. Then Mia. How many apples are left?",
        "Mia has x apples. Then Mia buys 5 and loses 3. How many apples are left?",
        "Mia has 12 apples. Then Mia buys 5 and burns 3. How many apples are left?",
        "Mia has 12 apples. Then Mia doubles 5 and loses 3. How many apples are left?",
        "Mia has 12 apples. Then Mia buys all and loses 3. How many apples are left?",
        "Mia has 12 apples. Then Tom buys 5 and loses 3. How many apples are left?",
        "Mia has 12 apples. Then Mia buys 5 and loses 3. How many pears are left?",
        "Mia has 12 apples. Then Mia buys 5 and loses -3. How many apples are left?",
        "Mia has 99999999999 apples. Then Mia buys 5 and loses 3. How many apples are left?",
        "Mia has 12 apples. Then Mia buys 5 and loses 3. How many apples are left? Say why."})
    EXPECT_FALSE(parse_sums(text)) << text;
}

// Solutions with one slip at rate 1: right by chance or by the problem, else of that kind alone.
std::map<Label, int> labels_of_sums(Manner manner, const SumsHabits& habits) {
  std::map<Label, int> counts;
  for (std::uint32_t i = 0; i < kManySums; ++i) {
    SumsProblem problem = some_sums(i);
    problem.manner = manner;
    Dice dice(4, {.step = 1, .prompt = i});
    const std::string text = write_sums(problem, dice, habits);
    const auto sentences = sentences_of(text);
    const bool right = answer_in(sentences.back()) == problem.answer();
    ++counts[right ? Label::kCorrect : check_sums(problem, text)];
  }
  return counts;
}

TEST(Sums, CheckerNamesEverySlip) {
  for (const Manner manner : {Manner::kBrief, Manner::kPlain, Manner::kExplained}) {
    for (const double own_words : {0.0, 1.0}) {
      const auto only = [&](double SumsHabits::* slip, Label kind, std::uint32_t at_least) {
        SumsHabits habits{.own_words = own_words};
        habits.*slip = 1;
        std::map<Label, int> counts = labels_of_sums(manner, habits);
        EXPECT_GE(counts[kind], static_cast<int>(at_least));
        EXPECT_EQ(counts[kind] + counts[Label::kCorrect], static_cast<int>(kManySums));
      };
      EXPECT_EQ(labels_of_sums(manner, {.own_words = own_words})[Label::kCorrect],
                static_cast<int>(kManySums));
      only(&SumsHabits::off_by_one, Label::kArithmetic, kManySums * 7 / 10);
      only(&SumsHabits::wrong_operand, Label::kReasoning, kManySums * 7 / 10);
      only(&SumsHabits::wrong_operator, Label::kReasoning, kManySums * 7 / 10);
      only(&SumsHabits::old_value, Label::kReasoning, kManySums * 7 / 10);
      only(&SumsHabits::skip, Label::kReasoning, kManySums * 7 / 10);
      only(&SumsHabits::guess, Label::kReasoning, kManySums * 7 / 10);
      only(&SumsHabits::early_end, Label::kPrematureStop, kManySums * 9 / 10);
    }
  }
}

TEST(Sums, TheFirstMistakeDecides) {
  const auto problem =
      parse_sums("Mia has 12 apples. Then Mia buys 5, doubles all and loses 3. How many apples are left?");
  ASSERT_TRUE(problem);
  const auto label = [&](const char* text) { return check_sums(*problem, text); };
  EXPECT_EQ(
      label(" We start with 12. Next 12 plus 5 makes 18. Now 18 minus 2 is 16. The final answer is 16."),
      Label::kArithmetic)
      << "the wrong operation comes later";
  EXPECT_EQ(label(" We start with 12. Next 12 minus 5 makes 8. The final answer is 8."), Label::kReasoning)
      << "the wrong result comes later";
  EXPECT_EQ(label(" 12 plus 5 is 17. 17 times 2 is 35. 35 minus 3 is 32. The final answer is 32."),
            Label::kArithmetic);
  EXPECT_EQ(label(" 12 plus 5 is 17. 17 minus 3 is 14. The final answer is 14."), Label::kReasoning)
      << "a move left out";
  EXPECT_EQ(label(" We start with 12. Next 12 plus 5 makes 17. The final answer is 17."),
            Label::kPrematureStop);
  EXPECT_EQ(label(" We start with 12. Next 12 plus 5 makes 17 indeed. The final answer is 17."),
            Label::kPrematureStop);
  EXPECT_EQ(label(" We start with 12. The final answer is 12."), Label::kPrematureStop);
  EXPECT_EQ(label(" The final answer is 12."), Label::kReasoning) << "nothing of a solution is there";
  EXPECT_EQ(label(" We start with 12. Next 12 plus 5 makes 17. The final answer is 19."), Label::kReasoning)
      << "an answer that no step gave";
  EXPECT_EQ(label(" Clearly we can say the final answer is 12."), Label::kReasoning);
  EXPECT_EQ(label(" We start with 13. Next 13 plus 5 makes 18. The final answer is 13."), Label::kReasoning);
  EXPECT_EQ(label(" Initially Mia has 12. Next 12 plus 5 makes 17. The final answer is 17."),
            Label::kPrematureStop);
  EXPECT_EQ(label(" Initially Tom has 12. Next 12 plus 5 makes 17. The final answer is 17."),
            Label::kReasoning);
  EXPECT_EQ(label(" 12 plus 5 is 17. 17 times 2 is 34. 34 minus 3 is 31. 31 minus 1 is 30. The final answer "
                  "is 30."),
            Label::kReasoning)
      << "one step too many";
}

}  // namespace
}  // namespace routeopd::lab
