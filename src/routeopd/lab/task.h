// The laboratory's task: small word problems, solved in words. A person gains and loses things; every step of
// a solution says the operation and its result, and the last sentence gives the answer.
//
//   Problem: Mia has 12 apples. Then Mia buys 5 and loses 3. How many apples are left?
//   Solution: We start with 12. Next 12 plus 5 makes 17. Then 17 minus 3 gives 14. The final answer is 14.
//
// The arithmetic is small enough to be known (numbers to 30, steps of 1 to 9). Wording is free: openers,
// connectives, operators and result words have synonyms. The teacher uses them evenly; the base student has
// habits of its own, some of wording and some that make the answer wrong:
//
//   demand on one token     the result is off by one where a ten is crossed; a plus for a minus; the operand
//                           of the step before
//   demand on many tokens   a guess in place of a solution (the teacher would choose among six openers); the
//                           end before all operations are done (it would choose among six connectives)
//
// All randomness is addressed: problem `number` of a seed is the same whoever asks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace routeopd::lab {

inline constexpr std::int32_t kLargestNumber = 30;

struct Problem {
  std::string name;                 // who
  std::string noun;                 // what
  std::int32_t start = 0;           // how many at first
  std::vector<std::int32_t> moves;  // gained (over 0) or lost
  std::vector<std::string> verbs;   // one per move
  std::int32_t answer = 0;

  std::string text() const;  // "Mia has 12 apples. Then …"
};

// The problem whose text() this is; none where it is no text of the task. The text may come from anybody.
std::optional<Problem> parse_problem(std::string_view text);

// How a problem is asked: a template with {problem}, as in a recipe.
inline constexpr const char* kTemplate = "Problem: {problem}\nSolution:";

enum class Split { kTrain, kHeldOut };

// Problem `number` of a split. Which split a problem belongs to is decided by its numbers alone (a hash of
// "12+5-3"), so that no problem of one split is a rewording of one of the other.
Problem make_problem(std::uint64_t seed, Split split, std::uint32_t number);

Split split_of(const Problem& problem);

// How somebody writes: whose words, and how often each slip is made where it can happen.
struct Style {
  std::uint32_t address = 0;  // of its random numbers: styles must not share one
  bool base_words = false;    // the base student's wording, or the teacher's
  double off_by_one = 0;      // where a ten is crossed
  double wrong_operand = 0;   // the operand of the step before
  double wrong_operator = 0;  // a plus for a minus
  double guess = 0;           // no steps at all
  double early_end = 0;       // before each step but the first
};
inline constexpr double kLuckyGuess = 0.2;  // share of guesses that are right

inline constexpr Style kRightStyle{.address = 2};
// The teacher knows the slips, and makes them seldom: a teacher that never saw one would call a guess word
// all but impossible, and a single such token would outweigh a whole response.
inline constexpr Style kTeacherStyle{.address = 3,
                                     .off_by_one = 0.03,
                                     .wrong_operand = 0.02,
                                     .wrong_operator = 0.02,
                                     .guess = 0.03,
                                     .early_end = 0.02};
inline constexpr Style kBaseStyle{.address = 4,
                                  .base_words = true,
                                  .off_by_one = 0.30,
                                  .wrong_operand = 0.18,
                                  .wrong_operator = 0.25,
                                  .guess = 0.34,
                                  .early_end = 0.20};

// A solution of the problem in that style, with the space before it and without an end of sequence.
std::string write_solution(const Problem& problem, std::uint64_t seed, std::uint32_t number,
                           const Style& style);

// Every word of the task as a token's text, with its leading space where it has one.
std::vector<std::string> vocabulary();

}  // namespace routeopd::lab
