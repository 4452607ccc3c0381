// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/lists_words.h"

#include <array>

namespace routeopd::lab {

const Words kPut = {"Put", "Add", "Append", "Place"};
const Words kDrop = {"Drop", "Remove", "Delete", "Discard"};
const Words kTurn = {"Reverse", "Turn", "Flip", "Mirror"};
const Words kMove = {"Move", "Send", "Shift", "Carry"};

const Phrases kListOpeners = {{"We begin with", 1, 8},     {"First there are", 1, 4},
                              {"Initially we have", 1, 2}, {"At first come", 1, 1},
                              {"To start take", 1, 1},     {"Originally we see", 1, 1},
                              {"Before that stand", 1, 1}, {"Beginning with", 1, 1}};
const Phrases kPutting = {{"adding", 1, 1}, {"appending", 1, 1}, {"placing", 1, 1}, {"putting", 1, 1}};
const Phrases kDropping = {{"removing", 1, 1}, {"dropping", 1, 1}, {"deleting", 1, 1}, {"discarding", 1, 1}};
const Phrases kTurning = {{"turning", 1, 1}, {"reversing", 1, 1}, {"flipping", 1, 1}, {"mirroring", 1, 1}};
const Phrases kMoving = {{"moving", 1, 1}, {"sending", 1, 1}, {"shifting", 1, 1}, {"carrying", 1, 1}};

const InstructionWords& words_for(Instruction instruction) {
  static const std::array<InstructionWords, 6> all = {{{kPut, "at the end", kPutting, "behind"},
                                                       {kPut, "at the front", kPutting, "before"},
                                                       {kDrop, "the last", kDropping, "last"},
                                                       {kDrop, "the first", kDropping, "first"},
                                                       {kTurn, "the list", kTurning, "all"},
                                                       {kMove, "the first to the end", kMoving, "first"}}};
  return all[static_cast<std::size_t>(instruction)];
}

}  // namespace routeopd::lab
