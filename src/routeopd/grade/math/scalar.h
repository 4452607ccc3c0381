// Whether two expressions are equal: exactly where that can be
// decided, else by their values at kPoints points.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routeopd/grade/math/budget.h"
#include "routeopd/grade/math/node.h"

namespace routeopd::grade::math {

// A decimal number is its exact value (0.5 is 1/2, 0.333 is not 1/3), and may also stand for a value x that
// it was rounded or cut from: with p >= 6 places and 6 digits or more that count, |decimal - x| < 10^-p,
// though never finer than 10^-12 of x, where double precision ends. Of two decimals the shorter may be cut
// from the longer one.
//
// Expressions that have no normal form are equal if their values agree at every point where the reference is
// defined, and real if i does not occur; there must be two such points, one if there are no variables.
bool same_scalar(const Node& reference, const Node& given, Budget& budget);

// The sign of the factor c with reference = c · given, 0 when there is no such constant: what makes two
// equations or inequalities the same.
int factor_sign(const Node& reference, const Node& given, Budget& budget);

}  // namespace routeopd::grade::math
