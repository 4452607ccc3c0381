// The family "lists": its problems read back, and its checker tells apart every kind of slip.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "routeopd/lab/lists_solutions.h"

namespace routeopd::lab {
namespace {

using judge::Label;
using testing::ElementsAre;

constexpr std::uint32_t kManyLists = 1500;

ListsProblem some_list(std::uint32_t number) {
  Dice dice(12, {.step = 0, .prompt = number});
  return draw_lists(dice);
}

TEST(Lists, InstructionsDoWhatTheySay) {
  const Items items = {3, 8, 5};
  const auto after = [&](Instruction instruction) {
    return ListStep{.instruction = instruction, .item = 4, .verb = ""}.applied_to(items);
  };
  EXPECT_THAT(after(Instruction::kAddLast), ElementsAre(3, 8, 5, 4));
  EXPECT_THAT(after(Instruction::kAddFirst), ElementsAre(4, 3, 8, 5));
  EXPECT_THAT(after(Instruction::kDropLast), ElementsAre(3, 8));
  EXPECT_THAT(after(Instruction::kDropFirst), ElementsAre(8, 5));
  EXPECT_THAT(after(Instruction::kReverse), ElementsAre(5, 8, 3));
  EXPECT_THAT(after(Instruction::kRotate), ElementsAre(8, 5, 3));
  EXPECT_EQ(answer_to(Question::kFirst, items), 3);
  EXPECT_EQ(answer_to(Question::kSecond, items), 8);
  EXPECT_EQ(answer_to(Question::kLast, items), 5);
  EXPECT_EQ(answer_to(Question::kCount, items), 3);
}

TEST(Lists, AreReadBackAndItemsDiffer) {
  std::map<Manner, int> manners;
  std::map<Question, int> questions;
  std::map<Instruction, int> instructions;
  for (std::uint32_t i = 0; i < kManyLists; ++i) {
    const ListsProblem problem = some_list(i);
    const auto read = parse_lists(problem.text());
    ASSERT_TRUE(read) << problem.text();
    EXPECT_EQ(read->key(), problem.key());
    EXPECT_EQ(read->manner, problem.manner);
    EXPECT_EQ(read->question, problem.question);
    EXPECT_EQ(read->answer(), problem.answer());
    EXPECT_TRUE(problem.steps.size() >= kFewestInstructions && problem.steps.size() <= kMostInstructions);
    Items items = problem.items;
    for (const ListStep& step : problem.steps) {
      items = step.applied_to(items);
      EXPECT_TRUE(items.size() >= kShortestList && items.size() <= kLongestList) << problem.text();
      EXPECT_EQ(std::set<std::int32_t>(items.begin(), items.end()).size(), items.size()) << problem.text();
      ++instructions[step.instruction];
    }
    ++manners[problem.manner];
    ++questions[problem.question];
  }
  EXPECT_EQ(instructions.size(), 6U);
  for (const auto& [instruction, count] : instructions) EXPECT_GT(count, 500);
  for (const auto& [question, count] : questions) EXPECT_NEAR(count, kManyLists / 4, 100);
  for (const auto& [manner, count] : manners) EXPECT_NEAR(count, kManyLists / 3, 100);
}

TEST(Lists, TakeNothingElseForAProblem) {
  const std::string right = "The list is 3 8 5. Put 4 at the end. Flip the list. What is the first item?";
  EXPECT_TRUE(parse_lists(right));
  EXPECT_EQ(parse_lists(right)->key(), "3 8 5;a4;r");
  EXPECT_EQ(parse_lists(right)->answer(), 4);
  for (const char* text : {"", "The list is 3 8 5.", "The list is 3 8 5. What is the first item?",
                           "The list is . Flip the list. What is the first item?",
                           "The list is 3 8 x. Flip the list. What is the first item?",
                           "The list is 3 8 8. Flip the list. What is the first item?",
                           "The list is 3 8 5. Put 8 at the end. What is the first item?",
                           "The list is 3 8 5. Put 400 at the end. What is the first item?",
                           "The list is 3 8. Drop the first. What is the first item?",
                           "The list is 3 8 5. Flip the first. What is the first item?",
                           "The list is 3 8 5. Burn the list. What is the first item?",
                           "The list is 3 8 5. Flip the list. What is the third item?",
                           "The list is 3 8 5.  Flip the list. What is the first item?"})
    EXPECT_FALSE(parse_lists(text)) << text;
}

std::map<Label, int> labels_of_lists(Manner manner, const ListsHabits& habits) {
  std::map<Label, int> counts;
  for (std::uint32_t i = 0; i < kManyLists; ++i) {
    ListsProblem problem = some_list(i);
    problem.manner = manner;
    Dice dice(4, {.step = 1, .prompt = i});
    const std::string text = write_lists(problem, dice, habits);
    const auto sentences = sentences_of(text);
    const bool right = answer_in(sentences.back()) == problem.answer();
    ++counts[right ? Label::kCorrect : check_lists(problem, text)];
  }
  return counts;
}

TEST(Lists, CheckerNamesEverySlip) {
  for (const Manner manner : {Manner::kBrief, Manner::kPlain, Manner::kExplained}) {
    for (const double own_words : {0.0, 1.0}) {
      const auto only = [&](double ListsHabits::* slip, Label kind, std::uint32_t at_least) {
        ListsHabits habits{.own_words = own_words};
        habits.*slip = 1;
        std::map<Label, int> counts = labels_of_lists(manner, habits);
        EXPECT_GE(counts[kind], static_cast<int>(at_least));
        EXPECT_EQ(counts[kind] + counts[Label::kCorrect], static_cast<int>(kManyLists));
      };
      EXPECT_EQ(labels_of_lists(manner, {.own_words = own_words})[Label::kCorrect],
                static_cast<int>(kManyLists));
      only(&ListsHabits::wrong_end, Label::kArithmetic, kManyLists / 2);
      only(&ListsHabits::unturned, Label::kArithmetic, kManyLists / 6);
      only(&ListsHabits::off_by_one, Label::kArithmetic, kManyLists / 6);
      only(&ListsHabits::wrong_question, Label::kReasoning, kManyLists * 9 / 10);
      only(&ListsHabits::skip, Label::kReasoning, kManyLists / 2);
      only(&ListsHabits::guess, Label::kReasoning, kManyLists * 7 / 10);
      only(&ListsHabits::early_end, Label::kPrematureStop, kManyLists / 2);
    }
  }
}

TEST(Lists, TheFirstMistakeDecides) {
  const auto problem = parse_lists(
      "The list is 3 8 5. Put 4 at the end. Drop the first. Flip the list. What is the first item?");
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->answer(), 4);
  const auto label = [&](const char* text) { return check_lists(*problem, text); };
  const std::string begin = " We begin with 3 8 5.", added = begin + " adding 4 behind gives 3 8 5 4.",
                    dropped = added + " Then dropping first leaves 8 5 4.",
                    turned = dropped + " So turning all is 4 5 8.";
  const auto ended = [&](const std::string& text, int answer) {
    return check_lists(*problem, text + fmt::format(" The final answer is {}.", answer));
  };
  EXPECT_EQ(ended(begin + " adding 4 behind gives 4 3 8 5. turning all gives 5 8 3 4.", 5),
            Label::kArithmetic)
      << "the step left out comes later";
  EXPECT_EQ(ended(begin + " Next removing first gives 5 8.", 5), Label::kReasoning)
      << "the wrong result comes later";
  EXPECT_EQ(ended(begin, 3), Label::kPrematureStop);
  EXPECT_EQ(ended(dropped, 8), Label::kPrematureStop);
  EXPECT_EQ(ended(dropped, 5), Label::kReasoning);
  EXPECT_EQ(ended(turned, 8), Label::kReasoning) << "the answer to another question";
  EXPECT_EQ(ended(turned + " Now turning all gives 8 5 4.", 8), Label::kReasoning) << "one step too many";
  EXPECT_EQ(ended(" We begin with 3 5 8.", 3), Label::kReasoning) << "another list to begin with";
  EXPECT_EQ(ended("", 3), Label::kReasoning);
  EXPECT_EQ(label(" We begin with 3 8 5. Next adding 4 behind gives 4 3 8 5. The final answer is 4."),
            Label::kArithmetic);
  EXPECT_EQ(label(" We begin with 3 8 5. Next adding 4 before gives 4 3 8 5. The final answer is 4."),
            Label::kReasoning);
  EXPECT_EQ(label(" We begin with 3 8 5. Next adding 5 behind gives 3 8 5 5. The final answer is 3."),
            Label::kReasoning);
  EXPECT_EQ(label(" We begin with 3 8 5. Next removing first gives 8 5. The final answer is 8."),
            Label::kReasoning);
}

}  // namespace
}  // namespace routeopd::lab
