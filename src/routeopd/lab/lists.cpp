// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/lists.h"

#include <algorithm>
#include <array>

#include "routeopd/lab/lists_solutions.h"
#include "routeopd/lab/lists_words.h"

namespace routeopd::lab {
namespace {

constexpr std::array kInstructions = {Instruction::kAddLast,   Instruction::kAddFirst, Instruction::kDropLast,
                                      Instruction::kDropFirst, Instruction::kReverse,  Instruction::kRotate};
constexpr std::array kQuestions = {Question::kFirst, Question::kSecond, Question::kLast, Question::kCount};
constexpr std::array kManners = {Manner::kBrief, Manner::kPlain, Manner::kExplained};

// An item that the list does not have.
std::int32_t draw_item(Dice& dice, const Items& items) {
  for (;;) {
    const std::int32_t item = dice.between(1, kLargestItem);
    if (std::find(items.begin(), items.end(), item) == items.end()) return item;
  }
}

ListStep draw_step(Dice& dice, const Items& items) {
  for (;;) {
    ListStep step{.instruction = dice.among(kInstructions), .item = 0, .verb = ""};
    const bool drops =
        step.instruction == Instruction::kDropLast || step.instruction == Instruction::kDropFirst;
    if ((step.adds() && items.size() == kLongestList) || (drops && items.size() == kShortestList)) continue;
    if (step.adds()) step.item = draw_item(dice, items);
    step.verb = dice.among(words_for(step.instruction).verbs);
    return step;
  }
}

std::string instruction_text(const ListStep& step) {
  const std::string_view object = words_for(step.instruction).object;
  return step.adds() ? fmt::format("{} {} {}", step.verb, step.item, object)
                     : fmt::format("{} {}", step.verb, object);
}

std::string list_question(Manner manner, Question question) {
  if (question == Question::kCount) {
    constexpr std::array kCounts = {"Briefly, how many items are there?", "How many items are there?",
                                    "Explain how many items there are."};
    return kCounts[static_cast<std::size_t>(manner)];
  }
  constexpr std::array kPlaces = {"first", "second", "last"};
  const char* const place = kPlaces[static_cast<std::size_t>(question)];
  switch (manner) {
    case Manner::kBrief:
      return fmt::format("Briefly, what is the {} item?", place);
    case Manner::kExplained:
      return fmt::format("Explain what the {} item is.", place);
    case Manner::kPlain:
      break;
  }
  return fmt::format("What is the {} item?", place);
}

// "Put 4 at the end".
std::optional<ListStep> instruction_in(std::string_view sentence) {
  const Sentence words = words_of(sentence);
  if (words.size() < 2) return std::nullopt;
  for (const Instruction instruction : kInstructions) {
    ListStep step{.instruction = instruction, .item = 0, .verb = std::string(words[0])};
    if (!is_one_of(words[0], words_for(instruction).verbs)) continue;
    if (step.adds()) step.item = number_of(words[1]).value_or(-1);
    if (instruction_text(step) == sentence) return step;
  }
  return std::nullopt;
}

// Whether adding and dropping keep the list's length, and its items differ.
bool is_sound(const ListsProblem& problem) {
  Items items = problem.items;
  for (std::size_t i = 0;; ++i) {
    Items sorted = items;
    std::sort(sorted.begin(), sorted.end());
    if (items.size() < kShortestList || items.size() > kLongestList || sorted.front() < 0 ||
        sorted.back() > kLargestItem || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      return false;
    if (i == problem.steps.size()) return i > 0;
    items = problem.steps[i].applied_to(items);
  }
}

ListsProblem lists_problem(std::string_view text) {
  if (auto problem = parse_lists(text)) return *std::move(problem);
  throw UserError("lists: expected a problem of the family, got \"{}\"", text.substr(0, 200));
}

class Lists final : public Task {
 public:
  std::string name() const override { return "lists"; }
  std::vector<std::string> vocabulary() const override {
    Vocabulary vocabulary(kLargestItem);
    vocabulary.add("The list is What what How how many item items there are first second last front");
    for (const Instruction instruction : kInstructions) {
      const InstructionWords& words = words_for(instruction);
      vocabulary.add(words.verbs);
      vocabulary.add(words.object);
      vocabulary.add(words.doing);
      vocabulary.add(words.where);
    }
    vocabulary.add(kListOpeners);
    return vocabulary.tokens();
  }
  bool reads(std::string_view problem) const override { return parse_lists(problem).has_value(); }
  judge::Label check_solution(std::string_view problem, std::string_view response) const override {
    return check_lists(lists_problem(problem), response);
  }
  MakeOptions make_options() const override {
    MakeOptions options;
    options.teacher_steps = 2800;
    options.student_steps = 2000;
    return options;
  }

 protected:
  Problem draw_problem(Dice& dice) const override {
    const ListsProblem problem = draw_lists(dice);
    return {problem.text(), std::to_string(problem.answer()), problem.key()};
  }
  std::string write(std::string_view text, Dice& dice, Writer writer) const override {
    const ListsProblem problem = lists_problem(text);
    return write_lists(problem, dice, lists_habits(writer, problem.manner));
  }
};

}  // namespace

bool ListStep::adds() const {
  return instruction == Instruction::kAddLast || instruction == Instruction::kAddFirst;
}

Items ListStep::applied_to(Items items) const {
  switch (instruction) {
    case Instruction::kAddLast:
      items.push_back(item);
      break;
    case Instruction::kAddFirst:
      items.insert(items.begin(), item);
      break;
    case Instruction::kDropLast:
      if (items.size() > 1) items.pop_back();
      break;
    case Instruction::kDropFirst:
      if (items.size() > 1) items.erase(items.begin());
      break;
    case Instruction::kReverse:
      std::reverse(items.begin(), items.end());
      break;
    case Instruction::kRotate:
      if (!items.empty()) std::rotate(items.begin(), items.begin() + 1, items.end());
      break;
  }
  return items;
}

std::int32_t answer_to(Question question, const Items& items) {
  switch (question) {
    case Question::kFirst:
      return items.empty() ? 0 : items.front();
    case Question::kSecond:
      return items.size() < 2 ? 0 : items[1];
    case Question::kLast:
      return items.empty() ? 0 : items.back();
    case Question::kCount:
      break;
  }
  return static_cast<std::int32_t>(items.size());
}

std::int32_t ListsProblem::answer() const {
  Items now = items;
  for (const ListStep& step : steps) now = step.applied_to(std::move(now));
  return answer_to(question, now);
}

std::string items_text(const Items& items) {
  std::string text;
  for (const std::int32_t item : items) text += fmt::format("{}{}", text.empty() ? "" : " ", item);
  return text;
}

std::string ListsProblem::text() const {
  std::string text = fmt::format("The list is {}.", items_text(items));
  for (const ListStep& step : steps) text += fmt::format(" {}.", instruction_text(step));
  return fmt::format("{} {}", text, list_question(manner, question));
}

std::string ListsProblem::key() const {
  constexpr std::array kMarks = {"a", "A", "d", "D", "r", "m"};
  std::string key = items_text(items);
  for (const ListStep& step : steps) {
    key += fmt::format(";{}", kMarks[static_cast<std::size_t>(step.instruction)]);
    if (step.adds()) key += std::to_string(step.item);
  }
  return key;
}

ListsProblem draw_lists(Dice& dice) {
  ListsProblem problem;
  problem.manner = dice.among(kManners);
  for (std::int32_t left = dice.between(3, 4); left > 0; --left)
    problem.items.push_back(draw_item(dice, problem.items));
  const std::size_t steps = kFewestInstructions + dice.below(kMostInstructions - kFewestInstructions + 1);
  Items items = problem.items;
  for (std::size_t i = 0; i < steps; ++i) {
    problem.steps.push_back(draw_step(dice, items));
    items = problem.steps.back().applied_to(std::move(items));
  }
  problem.question = dice.among(kQuestions);
  return problem;
}

std::optional<ListsProblem> parse_lists(std::string_view text) {
  constexpr std::size_t kLongest = 1000;
  constexpr std::string_view kBegin = "The list is ";
  if (text.size() > kLongest || !text.starts_with(kBegin)) return std::nullopt;
  ListsProblem problem;
  std::string_view rest = text.substr(kBegin.size());
  const auto next = [&] {  // what stands before the next ". "
    const std::size_t end = rest.find(". ");
    const std::string_view sentence = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 2);
    return sentence;
  };
  for (const std::string_view word : words_of(next())) problem.items.push_back(number_of(word).value_or(-1));
  while (rest.find(". ") != std::string_view::npos) {
    auto step = instruction_in(next());
    if (!step || problem.steps.size() == kMostInstructions) return std::nullopt;
    problem.steps.push_back(*std::move(step));
  }
  bool asked = false;
  for (const Manner manner : kManners) {
    for (const Question question : kQuestions) {
      if (rest != list_question(manner, question)) continue;
      problem.manner = manner;
      problem.question = question;
      asked = true;
    }
  }
  // Whatever was passed over shows when it is written again.
  if (!asked || problem.items.empty() || !is_sound(problem) || problem.text() != text) return std::nullopt;
  return problem;
}

const Task& lists_task() {
  static const Lists task;
  return task;
}

}  // namespace routeopd::lab
