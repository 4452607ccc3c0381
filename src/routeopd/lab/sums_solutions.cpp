// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/sums_solutions.h"

#include <algorithm>
#include <optional>

#include "routeopd/lab/sums_words.h"

namespace routeopd::lab {
namespace {

const Phrases& words_for(Operation operation) {
  switch (operation) {
    case Operation::kPlus:
      return kPlus;
    case Operation::kMinus:
      return kMinus;
    case Operation::kTimes:
      return kTimes;
    case Operation::kOver:
      break;
  }
  return kOver;
}

std::string with_name(std::string_view words, const std::string& name) {
  const std::size_t at = words.find("NAME");
  if (at == std::string_view::npos) return std::string(words);
  return fmt::format("{}{}{}", words.substr(0, at), name, words.substr(at + 4));
}

std::string write_sums_guess(const SumsProblem& problem, Dice& dice, const SumsHabits& habits) {
  std::int32_t answer = problem.answer();
  if (!dice.chance(kLuckyGuess)) {
    std::vector<std::int32_t> near;
    for (const std::int32_t distance : {-2, -1, 1, 2}) {
      if (answer + distance >= 0 && answer + distance <= kLargestSum) near.push_back(answer + distance);
    }
    answer = dice.among(near);
  }
  return guess_text(dice, habits.own_words, answer);
}

// One step as it is written, slips included.
struct SumsStep {
  std::int32_t left = 0;
  Operation operation = Operation::kPlus;
  std::int32_t right = 0;
  std::int32_t result = 0;
};

std::string step_text(const SumsStep& step, const SumsProblem& problem, Dice& dice, double own_words) {
  const Phrases& operations = words_for(step.operation);
  if (problem.manner == Manner::kBrief)
    return fmt::format(" {} {} {} is {}.", step.left, operations.front().words, step.right, step.result);
  const std::string_view connective = chosen(dice, kConnectives, own_words);
  const std::string_view operation = chosen(dice, operations, own_words);
  std::string text = fmt::format(" {} {} {} {}", connective, step.left, operation, step.right);
  text += fmt::format(" {} {}", chosen(dice, kResults, own_words), step.result);
  if (problem.manner == Manner::kExplained) text += fmt::format(" {}", chosen(dice, kRemarks, own_words));
  return text + ".";
}

// N of "We start with N" and its like.
std::optional<std::int32_t> start_in(const Sentence& words, const std::string& name) {
  const auto opens = [&](const Phrase& opener) {
    const Sentence said = words_of(opener.words);
    if (words.size() != said.size() + 1) return false;
    return std::equal(said.begin(), said.end(), words.begin(), [&](std::string_view a, std::string_view b) {
      return b == (a == "NAME" ? std::string_view(name) : a);
    });
  };
  if (!std::any_of(kSumsOpeners.begin(), kSumsOpeners.end(), opens)) return std::nullopt;
  return number_of(words.back());
}

std::optional<Operation> operation_in(std::string_view word) {
  for (const Operation operation :
       {Operation::kPlus, Operation::kMinus, Operation::kTimes, Operation::kOver}) {
    if (is_one_of(word, words_for(operation))) return operation;
  }
  return std::nullopt;
}

// "Next 12 plus 5 makes 17 indeed", with or without the first and the last word.
std::optional<SumsStep> sums_step_in(const Sentence& sentence) {
  const Sentence words = bare_step(sentence);
  if (words.size() != 5 || !is_one_of(words[3], kResults)) return std::nullopt;
  const auto left = number_of(words[0]), right = number_of(words[2]), result = number_of(words[4]);
  const auto operation = operation_in(words[1]);
  if (!operation || !left || !right || !result) return std::nullopt;
  return SumsStep{*left, *operation, *right, *result};
}

}  // namespace

// The teacher knows the slips, and makes them seldom: a teacher that never saw one would call a guess word
// all but impossible, and a single such token would outweigh a whole response.
SumsHabits sums_habits(Writer writer, Manner manner) {
  if (writer == Writer::kRight) return {};
  const bool brief = manner == Manner::kBrief;
  if (writer == Writer::kTeacher)
    return {.off_by_one = 0.03,
            .wrong_operand = 0.02,
            .wrong_operator = 0.02,
            .old_value = 0.01,
            .skip = 0.01,
            .guess = brief ? 0 : 0.03,
            .early_end = 0.015};
  switch (manner) {
    case Manner::kBrief:
      return {.off_by_one = 0.28, .wrong_operand = 0.14, .wrong_operator = 0.22, .old_value = 0.08};
    case Manner::kPlain:
      return {.own_words = 0.03,
              .off_by_one = 0.3,
              .wrong_operand = 0.2,
              .wrong_operator = 0.16,
              .old_value = 0.08,
              .skip = 0.02,
              .guess = 0.05,
              .early_end = 0.03};
    case Manner::kExplained:
      break;
  }
  return {.own_words = 1, .skip = 0.1, .guess = 0.3, .early_end = 0.14};
}

std::string write_sums(const SumsProblem& problem, Dice& dice, const SumsHabits& habits) {
  if (dice.chance(habits.guess)) return write_sums_guess(problem, dice, habits);
  const std::vector<SumsMove>& moves = problem.moves;
  const auto same = [](const SumsMove& a, const SumsMove& b) {
    return a.operation == b.operation && a.size == b.size;
  };
  std::int32_t value = problem.start, before = problem.start;
  bool skipped = false;  // the one before: never two in a row, nor one that the next one looks like
  std::string text;
  if (problem.manner != Manner::kBrief)
    text =
        fmt::format(" {} {}.", with_name(chosen(dice, kSumsOpeners, habits.own_words), problem.name), value);
  for (std::size_t i = 0; i < moves.size(); ++i) {
    if (i > 0 && dice.chance(habits.early_end)) break;
    skipped = i > 0 && !skipped && i + 1 < moves.size() && !same(moves[i], moves[i + 1]) &&
              dice.chance(habits.skip);
    if (skipped) continue;
    SumsMove move = moves[i];
    if ((move.operation == Operation::kMinus || move.operation == Operation::kTimes) &&
        dice.chance(habits.wrong_operator))
      move.operation = Operation::kPlus;
    if (i > 0 && dice.chance(habits.wrong_operand)) move.size = moves[i - 1].size;
    if (i > 0 && dice.chance(habits.old_value)) value = before;
    SumsStep step{value, move.operation, move.size, move.applied_to(value)};
    if (step.result / 10 != value / 10 && dice.chance(habits.off_by_one))
      step.result = std::min(step.result + 1, kLargestSum);
    text += step_text(step, problem, dice, habits.own_words);
    before = value;
    value = step.result;
  }
  if (problem.manner == Manner::kBrief) return text + fmt::format(" The final answer is {}.", value);
  return text + closing_text(dice, habits.own_words, value);
}

judge::Label check_sums(const SumsProblem& problem, std::string_view response) {
  using judge::Label;
  std::int32_t value = problem.start;
  std::size_t done = 0;
  bool begun = false;  // something of a solution is there, and right
  for (const Sentence& words : sentences_of(response)) {
    if (const auto answer = answer_in(words)) {
      const bool stopped = begun && done < problem.moves.size() && *answer == value;
      return stopped ? Label::kPrematureStop : Label::kReasoning;
    }
    if (const auto start = start_in(words, problem.name)) {
      if (begun || *start != problem.start) return Label::kReasoning;
      begun = true;
      continue;
    }
    const auto step = sums_step_in(words);
    if (!step || done == problem.moves.size()) return Label::kReasoning;
    const SumsMove& move = problem.moves[done];
    if (step->left != value || step->operation != move.operation || step->right != move.size)
      return Label::kReasoning;
    value = move.applied_to(value);
    if (step->result != value) return Label::kArithmetic;
    ++done;
    begun = true;
  }
  return Label::kReasoning;
}

}  // namespace routeopd::lab
