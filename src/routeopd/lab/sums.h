// The family "sums": a person gains and loses things, and sometimes doubles or halves all of them. Every step
// of a solution says the operation and its result, and the last sentence gives the answer.
//
//   plain   Problem: Mia has 12 apples. Then Mia buys 5, doubles all and loses 9. How many apples are left?
//           Solution: We start with 12. Next 12 plus 5 makes 17. Then 17 times 2 gives 34. Now 34 minus 9 is
//           25. The final answer is 25.
//   brief   Problem: … Briefly, how many apples are left?
//           Solution: 12 plus 5 is 17. 17 times 2 is 34. 34 minus 9 is 25. The final answer is 25.
//   explained  Problem: … Explain how many apples are left. (As plain, each step with a remark.)
//
// The sums are small (numbers to 60, steps of 1 to 12), so that a teacher can know all of them; the chain is
// long enough that a student which knows most of them still goes wrong somewhere.
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

inline constexpr std::int32_t kLargestSum = 60;
inline constexpr std::int32_t kLargestMove = 12;
inline constexpr std::size_t kFewestMoves = 3, kMostMoves = 6;

enum class Operation { kPlus, kMinus, kTimes, kOver };

struct SumsMove {
  Operation operation = Operation::kPlus;
  std::int32_t size = 0;  // 2 where all is doubled or halved
  std::string verb;

  // What `value` becomes, kept within 0 to kLargestSum: after a slip a step may lead outside.
  std::int32_t applied_to(std::int32_t value) const;
};

struct SumsProblem {
  Manner manner = Manner::kPlain;
  std::string name;        // who
  std::string noun;        // what
  std::int32_t start = 0;  // how many at first
  std::vector<SumsMove> moves;

  std::int32_t answer() const;
  std::string text() const;
  std::string key() const;  // "12+5*2-9"
};

SumsProblem draw_sums(Dice& dice);

// The problem whose text() this is; none where it is no text of the family.
std::optional<SumsProblem> parse_sums(std::string_view text);

const Task& sums_task();

}  // namespace routeopd::lab
