// The words of the family "lists".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routeopd/lab/lists.h"
#include "routeopd/lab/phrases.h"

namespace routeopd::lab {

// How an instruction is said: "VERB ITEM at the end" in a problem, "DOING ITEM behind" in a solution.
struct InstructionWords {
  const Words& verbs;
  std::string_view object;  // after the verb, and after the item where there is one
  const Phrases& doing;
  std::string_view where;
};
const InstructionWords& words_for(Instruction instruction);

// Of problems.
extern const Words kPut, kDrop, kTurn, kMove;

// Of solutions.
extern const Phrases kListOpeners, kPutting, kDropping, kTurning, kMoving;

}  // namespace routeopd::lab
