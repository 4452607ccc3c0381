// Solutions of the family "lists": how each writer writes them, and the first mistake of one that was read.
//
//   demand on one token     an item added or dropped at the wrong end; the last two items of a reversed list
//                           the wrong way round; an added item that is one too large; the answer to another
//                           question
//   demand on many tokens   a guess in place of a solution; the end before all instructions are done; an
//                           instruction left out
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "routeopd/judge/labels.h"
#include "routeopd/lab/lists.h"

namespace routeopd::lab {

// How somebody writes: whose words, and how often each slip is made where it can happen.
struct ListsHabits {
  double own_words = 0;       // share of phrases that are chosen as the base student does
  double wrong_end = 0;       // of adding and dropping
  double unturned = 0;        // of reversing: the last two as they were
  double off_by_one = 0;      // of adding
  double wrong_question = 0;  // the last item for the first or second, the first for the last or the count
  double skip = 0;            // an instruction but the last is left out
  double guess = 0;           // no steps at all
  double early_end = 0;       // before each step but the first
};

ListsHabits lists_habits(Writer writer, Manner manner);

std::string write_lists(const ListsProblem& problem, Dice& dice, const ListsHabits& habits);

// The label of a response whose answer is wrong.
judge::Label check_lists(const ListsProblem& problem, std::string_view response);

}  // namespace routeopd::lab
