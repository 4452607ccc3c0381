// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/sums.h"

#include <algorithm>
#include <sstream>

#include "routeopd/lab/sums_solutions.h"
#include "routeopd/lab/sums_words.h"

namespace routeopd::lab {
namespace {

constexpr double kDoubling = 0.1, kHalving = 0.15;  // where they can happen

SumsMove draw_move(Dice& dice, std::int32_t value) {
  if (value > 0 && 2 * value <= kLargestSum && dice.chance(kDoubling))
    return {Operation::kTimes, 2, std::string(dice.among(kDoubles))};
  if (value > 0 && value % 2 == 0 && dice.chance(kHalving))
    return {Operation::kOver, 2, std::string(dice.among(kHalves))};
  const std::int32_t most_gain = std::min(kLargestMove, kLargestSum - value),
                     most_loss = std::min(kLargestMove, value);
  const bool gains = most_loss == 0 || (most_gain > 0 && dice.chance(0.5));
  const std::int32_t size = dice.between(1, gains ? most_gain : most_loss);
  return gains ? SumsMove{Operation::kPlus, size, std::string(dice.among(kGains))}
               : SumsMove{Operation::kMinus, size, std::string(dice.among(kLosses))};
}

std::string move_text(const SumsMove& move) {
  const bool all = move.operation == Operation::kTimes || move.operation == Operation::kOver;
  return all ? fmt::format("{} all", move.verb) : fmt::format("{} {}", move.verb, move.size);
}

std::string sums_question(Manner manner, const std::string& noun) {
  switch (manner) {
    case Manner::kBrief:
      return fmt::format("Briefly, how many {} are left?", noun);
    case Manner::kExplained:
      return fmt::format("Explain how many {} are left.", noun);
    case Manner::kPlain:
      break;
  }
  return fmt::format("How many {} are left?", noun);
}

SumsProblem sums_problem(std::string_view text) {
  if (auto problem = parse_sums(text)) return *std::move(problem);
  throw UserError("sums: expected a problem of the family, got \"{}\"", text.substr(0, 200));
}

class Sums final : public Task {
 public:
  std::string name() const override { return "sums"; }
  std::vector<std::string> vocabulary() const override {
    Vocabulary vocabulary(kLargestSum);
    vocabulary.add("has Then and How how many are left all");
    for (const Words* words : {&kNames, &kNouns, &kGains, &kLosses, &kDoubles, &kHalves})
      vocabulary.add(*words);
    for (const Phrases* phrases : {&kSumsOpeners, &kPlus, &kMinus, &kTimes, &kOver}) vocabulary.add(*phrases);
    return vocabulary.tokens();
  }
  bool reads(std::string_view problem) const override { return parse_sums(problem).has_value(); }
  judge::Label check_solution(std::string_view problem, std::string_view response) const override {
    return check_sums(sums_problem(problem), response);
  }
  MakeOptions make_options() const override { return {}; }

 protected:
  Problem draw_problem(Dice& dice) const override {
    const SumsProblem problem = draw_sums(dice);
    return {problem.text(), std::to_string(problem.answer()), problem.key()};
  }
  std::string write(std::string_view text, Dice& dice, Writer writer) const override {
    const SumsProblem problem = sums_problem(text);
    return write_sums(problem, dice, sums_habits(writer, problem.manner));
  }
};

}  // namespace

std::int32_t SumsMove::applied_to(std::int32_t value) const {
  switch (operation) {
    case Operation::kPlus:
      value += size;
      break;
    case Operation::kMinus:
      value -= size;
      break;
    case Operation::kTimes:
      value *= size;
      break;
    case Operation::kOver:
      value /= size;
      break;
  }
  return std::clamp(value, 0, kLargestSum);
}

std::int32_t SumsProblem::answer() const {
  std::int32_t value = start;
  for (const SumsMove& move : moves) value = move.applied_to(value);
  return value;
}

std::string SumsProblem::text() const {
  std::string what;
  for (std::size_t i = 0; i < moves.size(); ++i)
    what += (i == 0 ? " " : i + 1 == moves.size() ? " and " : ", ") + move_text(moves[i]);
  return fmt::format("{} has {} {}. Then {}{}. {}", name, start, noun, name, what,
                     sums_question(manner, noun));
}

std::string SumsProblem::key() const {
  std::string key = std::to_string(start);
  for (const SumsMove& move : moves)
    key += fmt::format("{}{}", "+-*/"[static_cast<std::size_t>(move.operation)], move.size);
  return key;
}

SumsProblem draw_sums(Dice& dice) {
  SumsProblem problem;
  problem.manner = dice.among(std::vector{Manner::kBrief, Manner::kPlain, Manner::kExplained});
  const std::size_t moves = kFewestMoves + dice.below(kMostMoves - kFewestMoves + 1);
  problem.start = dice.between(1, kLargestSum / 2);
  std::int32_t value = problem.start;
  for (std::size_t i = 0; i < moves; ++i) {
    problem.moves.push_back(draw_move(dice, value));
    value = problem.moves.back().applied_to(value);
  }
  problem.name = dice.among(kNames);
  problem.noun = dice.among(kNouns);
  return problem;
}

std::optional<SumsProblem> parse_sums(std::string_view text) {
  constexpr std::size_t kLongest = 1000;
  if (text.size() > kLongest) return std::nullopt;
  std::string plain(text);
  std::replace_if(plain.begin(), plain.end(), [](char c) { return c == '.' || c == ',' || c == '?'; }, ' ');
  std::istringstream words(plain);
  SumsProblem problem;
  std::string has, then, who, verb, size;
  words >> problem.name >> has >> problem.start >> problem.noun >> then >> who;
  while (words >> verb && verb != "How" && verb != "Briefly" && verb != "Explain" &&
         problem.moves.size() <= kMostMoves) {
    if (verb == "and") continue;
    const bool doubles = is_one_of(verb, kDoubles), halves = is_one_of(verb, kHalves),
               gains = is_one_of(verb, kGains);
    if (!doubles && !halves && !gains && !is_one_of(verb, kLosses)) return std::nullopt;
    if (!(words >> size)) return std::nullopt;
    const auto number = doubles || halves ? std::optional<std::int32_t>(2) : number_of(size);
    if (!number) return std::nullopt;
    problem.moves.push_back({doubles  ? Operation::kTimes
                             : halves ? Operation::kOver
                             : gains  ? Operation::kPlus
                                      : Operation::kMinus,
                             *number, verb});
  }
  problem.manner = verb == "Briefly"   ? Manner::kBrief
                   : verb == "Explain" ? Manner::kExplained
                                       : Manner::kPlain;
  // Whatever was passed over shows when it is written again.
  if (problem.moves.empty() || problem.start < 0 || problem.start > kLargestSum || problem.text() != text)
    return std::nullopt;
  return problem;
}

const Task& sums_task() {
  static const Sums task;
  return task;
}

}  // namespace routeopd::lab
