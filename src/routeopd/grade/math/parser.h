// From the text of an answer to its tree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "routeopd/grade/math/node.h"
#include "routeopd/grade/math/tokens.h"

namespace routeopd::grade::math {

// The grammar, loosest first; each level but brackets may consist of one part alone:
//
//   list      relation { , ; and or  relation }
//   relation  union { = < > \le \ge \ne \approx \in :  union }
//   union     sum { \cup \setminus  sum }
//   sum       [+ - \pm] term { + - \pm \mp  term }
//   term      factor { * / nothing  factor } [units]
//   factor    base { ! % ^ ° _ }
//   base      number, letter, \frac, \sqrt, \binom, function, brackets, |x|, set, matrix, words
//   set       \{ list \} or \{ variables [\in union] | list \}, with : for |
//
// A whole number beside a proper fraction is a mixed number; units and words after a value are dropped. An
// angle in degrees is the number before the sign, except inside of sin, cos, tan, cot, sec and csc.
// Throws Unreadable when the text is not all of this shape, or too deep, or too large.
Node parsed(Tokens tokens);

}  // namespace routeopd::grade::math
