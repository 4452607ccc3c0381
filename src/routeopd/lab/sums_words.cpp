// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/sums_words.h"

namespace routeopd::lab {

const Words kNames = {"Mia",   "Ben",   "Ana",   "Tom",   "Eva",   "Sam",   "Lea",   "Max",
                      "Zoe",   "Leo",   "Ida",   "Jan",   "Amy",   "Dan",   "Ruth",  "Paul",
                      "Nora",  "Omar",  "Lucy",  "Hugo",  "Vera",  "Ivan",  "Rosa",  "Carl",
                      "Sofia", "Peter", "Clara", "David", "Julia", "Simon", "Oscar", "Finn"};
const Words kNouns = {"apples", "pears",   "plums",  "lemons", "nuts",    "eggs",    "cakes",  "rolls",
                      "coins",  "stamps",  "cards",  "books",  "pens",    "pencils", "shells", "stones",
                      "beads",  "marbles", "balls",  "kites",  "flowers", "candles", "keys",   "cups",
                      "plates", "spoons",  "bricks", "tiles",  "boxes",   "bags",    "maps",   "toys"};
const Words kGains = {"buys", "finds", "gets", "wins", "picks", "earns", "collects", "receives"};
const Words kLosses = {"loses", "sells", "eats", "drops", "uses", "spends", "donates", "breaks"};
const Words kDoubles = {"doubles", "repeats"};
const Words kHalves = {"halves", "splits"};

const Phrases kSumsOpeners = {{"We start with", 1, 8},      {"First there are", 1, 4},
                              {"Initially NAME has", 1, 2}, {"Originally NAME owns", 1, 1},
                              {"At first we count", 1, 1},  {"To begin take", 1, 1},
                              {"Before that come", 1, 1},   {"Beginning with", 1, 1}};
const Phrases kPlus = {{"plus", 1, 1}, {"and", 1, 1}, {"with", 1, 1}, {"adding", 1, 1}};
const Phrases kMinus = {{"minus", 1, 1}, {"less", 1, 1}, {"without", 1, 1}, {"removing", 1, 1}};
const Phrases kTimes = {{"times", 1, 1}, {"by", 1, 1}};
const Phrases kOver = {{"over", 1, 1}, {"parted", 1, 1}};

}  // namespace routeopd::lab
