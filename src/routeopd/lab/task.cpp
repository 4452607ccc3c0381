// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/task.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <sstream>
#include <string_view>

#include "routeopd/base/error.h"
#include "routeopd/base/philox.h"
#include "routeopd/lab/words.h"

namespace routeopd::lab {
namespace {

// A run of addressed random numbers: draw 0, 1, … of one object.
class Dice {
 public:
  Dice(std::uint64_t seed, const StateAddress& object) : seed_(seed), object_(object) {
    check_address(object);
  }

  double uniform() {
    return static_cast<double>(
        unit_uniform(addressed_words(seed_, Purpose::kLaboratory, object_, draw_++)[0]));
  }
  bool chance(double rate) { return uniform() < rate; }
  std::size_t below(std::size_t count) {
    return std::min(static_cast<std::size_t>(uniform() * static_cast<double>(count)), count - 1);
  }
  template <class List>
  auto among(const List& list) {
    return list[below(list.size())];
  }

 private:
  std::uint64_t seed_;
  StateAddress object_;
  std::uint32_t draw_ = 0;
};

// The first number of a problem's address; styles have the others.
constexpr std::uint32_t kTrainAddress = 0, kHeldOutAddress = 1;

std::string_view phrase(Dice& dice, const Phrases& phrases, const Style& style) {
  double total = 0;
  for (const Phrase& one : phrases) total += style.base_words ? one.base : one.teacher;
  double left = dice.uniform() * total;
  for (const Phrase& one : phrases) {
    left -= style.base_words ? one.base : one.teacher;
    if (left < 0) return one.words;
  }
  return phrases.back().words;
}

std::string with_name(std::string_view words, const std::string& name) {
  const std::size_t at = words.find("NAME");
  if (at == std::string_view::npos) return std::string(words);
  return fmt::format("{}{}{}", words.substr(0, at), name, words.substr(at + 4));
}

std::int32_t bounded(std::int32_t value) {
  return std::clamp(value, 0, kLargestNumber);
}

std::int32_t draw_move(Dice& dice, std::int32_t value) {
  const std::int32_t most_gain = std::min(9, kLargestNumber - value), most_loss = std::min(9, value);
  const bool gains = most_loss == 0 || (most_gain > 0 && dice.chance(0.5));
  const auto size =
      static_cast<std::int32_t>(dice.below(static_cast<std::size_t>(gains ? most_gain : most_loss))) + 1;
  return gains ? size : -size;
}

Problem draw_problem(Dice dice) {
  Problem problem;
  const std::size_t moves = 2 + dice.below(3);
  problem.start = problem.answer = 1 + static_cast<std::int32_t>(dice.below(20));
  for (std::size_t i = 0; i < moves; ++i) {
    problem.moves.push_back(draw_move(dice, problem.answer));
    problem.answer += problem.moves.back();
  }
  problem.name = dice.among(kNames);
  problem.noun = dice.among(kNouns);
  for (const std::int32_t move : problem.moves)
    problem.verbs.emplace_back(dice.among(move > 0 ? kGains : kLosses));
  return problem;
}

std::string write_guess(const Problem& problem, Dice& dice, const Style& style) {
  std::int32_t answer = problem.answer;
  if (!dice.chance(kLuckyGuess)) {
    std::vector<std::int32_t> near;
    for (const std::int32_t distance : {-2, -1, 1, 2}) {
      if (answer + distance >= 0 && answer + distance <= kLargestNumber) near.push_back(answer + distance);
    }
    answer = dice.among(near);
  }
  return fmt::format(" {} final answer is {}.", phrase(dice, kGuesses, style), answer);
}

}  // namespace

std::string Problem::text() const {
  std::string what;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    what += i == 0 ? " " : i + 1 == moves.size() ? " and " : ", ";
    what += fmt::format("{} {}", verbs[i], std::abs(moves[i]));
  }
  return fmt::format("{} has {} {}. Then {}{}. How many {} are left?", name, start, noun, name, what, noun);
}

std::optional<Problem> parse_problem(std::string_view text) {
  constexpr std::size_t kLongest = 1000, kMostMoves = 16;
  if (text.size() > kLongest) return std::nullopt;
  std::string plain(text);
  std::replace_if(plain.begin(), plain.end(), [](char c) { return c == '.' || c == ',' || c == '?'; }, ' ');
  std::istringstream words(plain);
  Problem problem;
  std::string has, then, who, verb;
  words >> problem.name >> has >> problem.start >> problem.noun >> then >> who;
  problem.answer = problem.start;
  while (words >> verb && verb != "How" && problem.moves.size() < kMostMoves) {
    if (verb == "and") continue;
    std::int32_t size = 0;
    if (!(words >> size) || size < 0) return std::nullopt;
    const bool gains = std::find(kGains.begin(), kGains.end(), verb) != kGains.end();
    if (!gains && std::find(kLosses.begin(), kLosses.end(), verb) == kLosses.end()) return std::nullopt;
    problem.moves.push_back(gains ? size : -size);
    problem.verbs.push_back(verb);
    problem.answer += problem.moves.back();
  }
  // Whatever was passed over shows when it is written again.
  if (problem.start < 0 || problem.start > kLargestNumber || problem.text() != text) return std::nullopt;
  return problem;
}

// FNV-1a of the canonical form; one problem in eight is held out.
Split split_of(const Problem& problem) {
  std::string canonical = std::to_string(problem.start);
  for (const std::int32_t move : problem.moves) canonical += fmt::format("{:+}", move);
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : canonical) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3ULL;
  return hash % 8 == 0 ? Split::kHeldOut : Split::kTrain;
}

Problem make_problem(std::uint64_t seed, Split split, std::uint32_t number) {
  const std::uint32_t address = split == Split::kTrain ? kTrainAddress : kHeldOutAddress;
  for (std::uint32_t attempt = 0;; ++attempt) {
    Problem problem = draw_problem(Dice(seed, {.step = address, .prompt = number, .position = attempt}));
    if (split_of(problem) == split) return problem;
  }
}

std::string write_solution(const Problem& problem, std::uint64_t seed, std::uint32_t number,
                           const Style& style) {
  Dice dice(seed, {.step = style.address, .prompt = number});
  if (dice.chance(style.guess)) return write_guess(problem, dice, style);

  std::int32_t value = problem.start;
  std::string text = fmt::format(" {} {}.", with_name(phrase(dice, kOpeners, style), problem.name), value);
  for (std::size_t i = 0; i < problem.moves.size(); ++i) {
    if (i > 0 && dice.chance(style.early_end)) break;
    bool gains = problem.moves[i] > 0;
    std::int32_t size = std::abs(problem.moves[i]);
    if (!gains && dice.chance(style.wrong_operator)) gains = true;
    if (i > 0 && dice.chance(style.wrong_operand)) size = std::abs(problem.moves[i - 1]);
    std::int32_t result = bounded(gains ? value + size : value - size);
    if (result / 10 != value / 10 && dice.chance(style.off_by_one)) result = bounded(result + 1);
    const std::string_view connective = phrase(dice, kConnectives, style);
    const std::string_view operation = phrase(dice, gains ? kPlus : kMinus, style);
    text += fmt::format(" {} {} {} {} {} {}.", connective, value, operation, size,
                        phrase(dice, kResults, style), result);
    value = result;
  }
  return text + fmt::format(" {} final answer is {}.", phrase(dice, kClosings, style), value);
}

std::vector<std::string> vocabulary() {
  std::vector<std::string> all = {"Problem", "Solution"};
  std::set<std::string> seen(all.begin(), all.end());
  const auto add = [&](std::string_view word) {
    const std::string spaced = fmt::format(" {}", word);
    if (word != "NAME" && seen.insert(spaced).second) all.push_back(spaced);
  };
  for (const char* word : {"has", "Then", "and", "How", "many", "are", "left", "final", "answer", "the"})
    add(word);
  for (std::int32_t number = 0; number <= kLargestNumber; ++number) add(std::to_string(number));
  for (const Words* words : {&kNames, &kNouns, &kGains, &kLosses}) {
    for (const std::string_view word : *words) add(word);
  }
  for (const Phrases* phrases :
       {&kOpeners, &kConnectives, &kPlus, &kMinus, &kResults, &kClosings, &kGuesses}) {
    for (const Phrase& one : *phrases) {
      std::istringstream words{std::string(one.words)};
      for (std::string word; words >> word;) add(word);
    }
  }
  return all;
}

}  // namespace routeopd::lab
