// Sets of real numbers as answers: intervals and their unions, points, differences, and what inequalities in
// one variable leave.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routeopd/grade/math/budget.h"
#include "routeopd/grade/math/node.h"

namespace routeopd::grade::math {

// A \setminus B, \{x \mid …\}, \mathbb{R} - \{2\}: what can be nothing but a set.
bool is_described_set(const Node& node);

// Whether both are the same set of real numbers. A relation stands for the values that it leaves to its one
// variable, in which it must be linear; a list of them joined by "or" for all of these, by "and" for what
// they share. False for whatever cannot be ordered: ends with variables, complex ones, a list without
// such a word.
bool same_real_set(const Node& reference, const Node& given, Budget& budget);

// The same for two answers of which one is a described set at least: also builders whose conditions are equal
// once their variables have the same names, and differences of equal parts.
bool same_described_set(const Node& reference, const Node& given, Budget& budget);

}  // namespace routeopd::grade::math
