// The family "lists": a list is added to, dropped from, turned round, and asked about at the end. A solution
// writes the whole list after each instruction, so that an early slip spoils everything after it.
//
//   plain   Problem: The list is 3 8 5. Put 4 at the end. Drop the first. Flip the list. What is the first
//           item?
//           Solution: We begin with 3 8 5. Next adding 4 behind gives 3 8 5 4. Then removing first leaves
//           8 5 4. So turning all makes 4 5 8. The final answer is 4.
//   brief   Problem: … Briefly, what is the first item?
//           Solution: We begin with 3 8 5. adding 4 behind gives 3 8 5 4. removing first gives 8 5 4. turning
//           all gives 4 5 8. The final answer is 4.
//   explained  Problem: … Explain what the first item is. (As plain, each step with a remark.)
//
// The items of a list differ from each other, so that every slip can be seen.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/lab/phrases.h"
#include "routeopd/lab/task.h"

namespace routeopd::lab {

inline constexpr std::int32_t kLargestItem = 20;
inline constexpr std::size_t kShortestList = 2, kLongestList = 5;
inline constexpr std::size_t kFewestInstructions = 3, kMostInstructions = 5;

using Items = std::vector<std::int32_t>;

enum class Instruction { kAddLast, kAddFirst, kDropLast, kDropFirst, kReverse, kRotate };

struct ListStep {
  Instruction instruction = Instruction::kReverse;
  std::int32_t item = 0;  // of the two that add one
  std::string verb;

  bool adds() const;

  // What the list becomes. The last item of all is not dropped: after a slip a step may lead there.
  Items applied_to(Items items) const;
};

enum class Question { kFirst, kSecond, kLast, kCount };

// The answer to a question about a list; 0 where the list is too short.
std::int32_t answer_to(Question question, const Items& items);

struct ListsProblem {
  Manner manner = Manner::kPlain;
  Items items;  // at first
  std::vector<ListStep> steps;
  Question question = Question::kFirst;

  std::int32_t answer() const;
  std::string text() const;
  std::string key() const;  // "3 8 5;a4;D;r": the question is not in it
};

// "3 8 5".
std::string items_text(const Items& items);

ListsProblem draw_lists(Dice& dice);

// The problem whose text() this is; none where it is no text of the family.
std::optional<ListsProblem> parse_lists(std::string_view text);

const Task& lists_task();

}  // namespace routeopd::lab
