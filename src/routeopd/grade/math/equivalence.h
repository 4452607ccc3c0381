// Whether two trees are the same answer: tuples, intervals, sets, lists, matrices, equations, numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routeopd/grade/math/budget.h"
#include "routeopd/grade/math/node.h"

namespace routeopd::grade::math {

// `reference` is the answer that is known to be right. The two are not treated alike: 10 is right where 10\%
// is wanted, 10\% is wrong where 10 is. docs/grading.md has the rules. A comparison that would cost more than
// `budget` has is decided as "not the same".
bool same_answer(const Node& reference, const Node& given, Budget& budget);

}  // namespace routeopd::grade::math
