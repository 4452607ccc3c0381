// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/lists_solutions.h"

#include <algorithm>
#include <optional>
#include <span>

#include "routeopd/lab/lists_words.h"

namespace routeopd::lab {
namespace {

std::string write_lists_guess(const ListsProblem& problem, Dice& dice, const ListsHabits& habits) {
  const std::int32_t right = problem.answer();
  std::int32_t answer = right;
  if (!dice.chance(kLuckyGuess)) {
    while (answer == right) answer = dice.between(1, kLargestItem);
  }
  return guess_text(dice, habits.own_words, answer);
}

// Brief: in fixed words, and without a connective.
std::string list_step_text(const ListsProblem& problem, const ListStep& step, const Items& result, Dice& dice,
                           double own_words) {
  const bool brief = problem.manner == Manner::kBrief;
  const auto say = [&](const Phrases& phrases) {
    return brief ? phrases.front().words : chosen(dice, phrases, own_words);
  };
  const InstructionWords& words = words_for(step.instruction);
  std::string text = brief ? "" : fmt::format(" {}", say(kConnectives));
  text += fmt::format(" {}", say(words.doing));
  if (step.adds()) text += fmt::format(" {}", step.item);
  text += fmt::format(" {} {}", words.where, say(kResults));
  text += fmt::format(" {}", items_text(result));
  if (problem.manner == Manner::kExplained) text += fmt::format(" {}", say(kRemarks));
  return text + ".";
}

ListStep at_the_other_end(ListStep step) {
  switch (step.instruction) {
    case Instruction::kAddLast:
      step.instruction = Instruction::kAddFirst;
      break;
    case Instruction::kAddFirst:
      step.instruction = Instruction::kAddLast;
      break;
    case Instruction::kDropLast:
      step.instruction = Instruction::kDropFirst;
      break;
    case Instruction::kDropFirst:
      step.instruction = Instruction::kDropLast;
      break;
    case Instruction::kReverse:
    case Instruction::kRotate:
      break;
  }
  return step;
}

Items slipped(const ListStep& step, const Items& before, Dice& dice, const ListsHabits& habits) {
  const bool has_ends = step.instruction != Instruction::kReverse && step.instruction != Instruction::kRotate;
  ListStep done = step;
  if (has_ends && dice.chance(habits.wrong_end)) done = at_the_other_end(done);
  if (done.adds() && dice.chance(habits.off_by_one)) done.item = std::min(done.item + 1, kLargestItem);
  Items after = done.applied_to(before);
  if (done.instruction == Instruction::kReverse && after.size() > 1 && dice.chance(habits.unturned))
    std::swap(after[after.size() - 1], after[after.size() - 2]);
  return after;
}

Question another_question(Question question) {
  return question == Question::kFirst || question == Question::kSecond ? Question::kLast : Question::kFirst;
}

// All of the words as numbers.
std::optional<Items> items_in(std::span<const std::string_view> words) {
  Items items;
  for (const std::string_view word : words) {
    const auto number = number_of(word);
    if (!number) return std::nullopt;
    items.push_back(*number);
  }
  return items;
}

// The list of "We begin with 3 8 5" and its like.
std::optional<Items> start_of_list_in(const Sentence& words) {
  for (const Phrase& opener : kListOpeners) {
    const Sentence said = words_of(opener.words);
    if (words.size() > said.size() && std::equal(said.begin(), said.end(), words.begin()))
      return items_in(std::span(words).subspan(said.size()));
  }
  return std::nullopt;
}

struct SaidStep {
  bool right = false;  // it is what is to be done
  Items result;
};

// "Next adding 4 behind gives 3 8 5 4 indeed", with or without the first and the last word.
std::optional<SaidStep> list_step_in(const Sentence& sentence, const ListStep& step) {
  const Sentence words = bare_step(sentence);
  const std::span<const std::string_view> rest(words);
  const auto result =
      std::find_if(rest.begin(), rest.end(), [](std::string_view word) { return is_one_of(word, kResults); });
  if (result == rest.end()) return std::nullopt;
  const auto items = items_in({result + 1, rest.end()});
  if (!items) return std::nullopt;
  const std::span<const std::string_view> action(rest.begin(), result);
  const InstructionWords& said = words_for(step.instruction);
  const bool right = action.size() == (step.adds() ? 3U : 2U) && is_one_of(action[0], said.doing) &&
                     action.back() == said.where && (!step.adds() || number_of(action[1]) == step.item);
  return SaidStep{right, *items};
}

}  // namespace

ListsHabits lists_habits(Writer writer, Manner manner) {
  if (writer == Writer::kRight) return {};
  const bool brief = manner == Manner::kBrief;
  if (writer == Writer::kTeacher)  // seldom, but known to it: sums_solutions.cpp says why
    return {.wrong_end = 0.02,
            .unturned = 0.03,
            .off_by_one = 0.02,
            .wrong_question = 0.02,
            .skip = 0.01,
            .guess = brief ? 0 : 0.03,
            .early_end = 0.015};
  switch (manner) {
    case Manner::kBrief:
      return {.wrong_end = 0.3, .unturned = 0.42, .off_by_one = 0.36, .wrong_question = 0.32};
    case Manner::kPlain:
      return {.own_words = 0.05,
              .wrong_end = 0.26,
              .unturned = 0.36,
              .off_by_one = 0.3,
              .wrong_question = 0.25,
              .skip = 0.05,
              .guess = 0.08,
              .early_end = 0.05};
    case Manner::kExplained:
      break;
  }
  return {.own_words = 1, .skip = 0.14, .guess = 0.32, .early_end = 0.18};
}

std::string write_lists(const ListsProblem& problem, Dice& dice, const ListsHabits& habits) {
  if (dice.chance(habits.guess)) return write_lists_guess(problem, dice, habits);
  const std::vector<ListStep>& steps = problem.steps;
  const auto same = [](const ListStep& a, const ListStep& b) {
    return a.instruction == b.instruction && a.item == b.item;
  };
  const bool brief = problem.manner == Manner::kBrief;
  Items items = problem.items;
  std::string text = fmt::format(
      " {} {}.", brief ? kListOpeners.front().words : chosen(dice, kListOpeners, habits.own_words),
      items_text(items));
  bool skipped = false;  // the one before: never two in a row, nor one that the next one looks like
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (i > 0 && dice.chance(habits.early_end)) break;
    skipped = !skipped && i + 1 < steps.size() && !same(steps[i], steps[i + 1]) && dice.chance(habits.skip);
    if (skipped) continue;
    items = slipped(steps[i], items, dice, habits);
    text += list_step_text(problem, steps[i], items, dice, habits.own_words);
  }
  const Question question =
      dice.chance(habits.wrong_question) ? another_question(problem.question) : problem.question;
  const std::int32_t answer = answer_to(question, items);
  if (brief) return text + fmt::format(" The final answer is {}.", answer);
  return text + closing_text(dice, habits.own_words, answer);
}

judge::Label check_lists(const ListsProblem& problem, std::string_view response) {
  using judge::Label;
  Items items = problem.items;
  std::size_t done = 0;
  bool begun = false;  // something of a solution is there, and right
  for (const Sentence& words : sentences_of(response)) {
    if (const auto answer = answer_in(words)) {
      const bool stopped =
          begun && done < problem.steps.size() && *answer == answer_to(problem.question, items);
      return stopped ? Label::kPrematureStop : Label::kReasoning;
    }
    if (const auto start = start_of_list_in(words)) {
      if (begun || *start != problem.items) return Label::kReasoning;
      begun = true;
      continue;
    }
    if (done == problem.steps.size()) return Label::kReasoning;
    const auto said = list_step_in(words, problem.steps[done]);
    if (!said || !said->right) return Label::kReasoning;
    items = problem.steps[done].applied_to(std::move(items));
    if (said->result != items) return Label::kArithmetic;
    ++done;
    begun = true;
  }
  return Label::kReasoning;
}

}  // namespace routeopd::lab
