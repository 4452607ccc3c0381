// Solutions of the family "sums": how each writer writes them, and the first mistake of one that was read.
//
//   demand on one token     a result is off by one where a ten is crossed; the operand of the step before; a
//                           plus for a minus or a doubling; the value of the step before
//   demand on many tokens   a guess in place of a solution (the teacher would choose among eight openers);
//                           the end before all operations are done (among twelve connectives); a move left
//                           out
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "routeopd/judge/labels.h"
#include "routeopd/lab/sums.h"

namespace routeopd::lab {

// How somebody writes: whose words, and how often each slip is made where it can happen.
struct SumsHabits {
  double own_words = 0;       // share of phrases that are chosen as the base student does
  double off_by_one = 0;      // where a ten is crossed
  double wrong_operand = 0;   // the operand of the step before
  double wrong_operator = 0;  // a plus for a minus or a doubling
  double old_value = 0;       // the value before the last step
  double skip = 0;            // a move but the first and the last is left out
  double guess = 0;           // no steps at all
  double early_end = 0;       // before each step but the first
};

SumsHabits sums_habits(Writer writer, Manner manner);

std::string write_sums(const SumsProblem& problem, Dice& dice, const SumsHabits& habits);

// The label of a response whose answer is wrong.
judge::Label check_sums(const SumsProblem& problem, std::string_view response);

}  // namespace routeopd::lab
