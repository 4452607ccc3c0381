// The value of an expression at fixed pseudo-random points.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routeopd/grade/math/budget.h"
#include "routeopd/grade/math/complex.h"
#include "routeopd/grade/math/node.h"

namespace routeopd::grade::math {

// Variables have these values at point k: ±(1/2 + u), u uniform on [0, 2) with 24 bits, addressed by the
// variable's name and k alone. All are positive at the first points, where roots and logarithms are real;
// later each has a sign of its own.
inline constexpr unsigned kPoints = 6;
inline constexpr unsigned kPositivePoints = 3;

struct Value {
  Complex number;  // NaN where there is none
  long peak =
      0;  // the largest exponent of any value on the way; rounding errors are about 2^(peak - kPrecision)
};

Value value_at(const Node& node, unsigned point, Budget& budget);

// Whether two values agree up to rounding: |a - b| < 2^(peak - precision + kSlack).
inline constexpr int kSlack = 56;
bool agree(const Value& left, const Value& right);

}  // namespace routeopd::grade::math
