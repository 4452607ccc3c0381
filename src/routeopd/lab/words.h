// The words of the laboratory's task, shared by what writes solutions (task.h) and what reads them
// (checker.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

namespace routeopd::lab {

using Words = std::vector<std::string_view>;

// A way to say something, and how often the teacher and the base student say it so.
struct Phrase {
  std::string_view words;  // NAME stands for the problem's name
  double teacher;
  double base;
};
using Phrases = std::vector<Phrase>;

// Of problems.
extern const Words kNames, kNouns, kGains, kLosses;

// Of solutions, in the order in which they come.
extern const Phrases kOpeners, kConnectives, kPlus, kMinus, kResults, kClosings, kGuesses;

}  // namespace routeopd::lab
