// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/words.h"

namespace routeopd::lab {

const Words kNames = {"Mia",   "Ben",   "Ana",   "Tom",   "Eva",   "Sam",   "Lea",   "Max",
                      "Zoe",   "Leo",   "Ida",   "Jan",   "Amy",   "Dan",   "Ruth",  "Paul",
                      "Nora",  "Omar",  "Lucy",  "Hugo",  "Vera",  "Ivan",  "Rosa",  "Carl",
                      "Emma",  "Noah",  "Lily",  "Jack",  "Ella",  "Finn",  "Maya",  "Karl",
                      "Jana",  "Erik",  "Lara",  "Otto",  "Sofia", "Peter", "Clara", "David",
                      "Julia", "Simon", "Alice", "Felix", "Irene", "Oscar", "Helen", "Victor"};
const Words kNouns = {"apples", "pears",   "plums",  "lemons", "cherries", "melons",  "grapes",  "nuts",
                      "eggs",   "cakes",   "rolls",  "pies",   "coins",    "stamps",  "cards",   "books",
                      "pens",   "pencils", "shells", "stones", "beads",    "marbles", "buttons", "ribbons",
                      "balls",  "kites",   "dolls",  "boats",  "flowers",  "candles", "tickets", "badges",
                      "keys",   "cups",    "plates", "spoons", "rings",    "masks",   "hats",    "socks",
                      "bricks", "tiles",   "ropes",  "jars",   "boxes",    "bags",    "maps",    "toys",
                      "drums",  "flags"};
const Words kGains = {"buys",  "finds",    "gets",     "wins",    "picks",
                      "earns", "collects", "receives", "gathers", "borrows"};
const Words kLosses = {"loses",  "sells",   "eats",   "drops",   "uses",
                       "spends", "donates", "breaks", "returns", "throws"};

const Phrases kOpeners = {{"We start with", 1, 2},      {"First there are", 1, 2},
                          {"Initially NAME has", 1, 1}, {"Originally NAME owns", 1, 1},
                          {"At first we count", 1, 1},  {"To begin take", 1, 1}};
const Phrases kConnectives = {{"Next", 1, 4},  {"Then", 1, 2},       {"Now", 1, 1},
                              {"Later", 1, 1}, {"Afterwards", 1, 1}, {"So", 1, 1}};
const Phrases kPlus = {{"plus", 1, 1}, {"and", 1, 3}, {"with", 1, 1}, {"adding", 1, 1}};
const Phrases kMinus = {{"minus", 1, 1}, {"less", 1, 3}, {"without", 1, 1}, {"removing", 1, 1}};
const Phrases kResults = {{"makes", 1, 1}, {"gives", 1, 4},   {"equals", 1, 1},
                          {"is", 1, 2},    {"becomes", 1, 1}, {"yields", 1, 1}};
const Phrases kClosings = {{"The", 1, 5}, {"Thus the", 1, 1}, {"Hence the", 1, 1}, {"Therefore the", 1, 1}};
const Phrases kGuesses = {
    {"Maybe we can say the", 1, 1}, {"Clearly we can say the", 1, 4}, {"Probably we can say the", 1, 1}};

}  // namespace routeopd::lab
