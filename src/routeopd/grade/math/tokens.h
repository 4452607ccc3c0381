// The tokens of an answer in LaTeX, plain text or a mixture. What only says how things look is gone: \left,
// \big, \displaystyle, $, thin spaces; \dfrac is \frac, \cdot is *, ² is ^{2}.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmpxx.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace routeopd::grade::math {

enum class Type : std::uint8_t {
  kEnd,
  kNumber,   // text: its digits without separators; value; places
  kLetter,   // text: one letter, or a Greek one by its name
  kCommand,  // text: name without the backslash
  kSymbol,   // text: one of + - * / ^ _ ( ) [ ] { } < > , ; : = | ! % & '
  kWords,    // text: \text{…}, or a bare word of four letters or more
  kUnit,     // text: a unit as a bare word
  // text: and, or
  kConjunction,
  kScale,   // value: 10^6 for "million"
  kRow,     // the end of a matrix's row
  kBegin,   // text: the environment
  kFinish,  // text: the environment
};

struct Token {
  Type type = Type::kEnd;
  std::string text{};
  mpq_class value{};
  int places = -1;           // digits after the decimal point; -1 without one
  bool after_space = false;  // something that prints as space stands before it
};

struct Tokens {
  std::vector<Token> list{};  // ends with kEnd
  // There is a comma before three digits, and nothing says whether it groups digits or separates numbers.
  bool ambiguous_commas = false;
};

// Which bare commas group digits: "1,234". {,} and ,\! always do. Outside of brackets a comma groups, inside
// it separates: (1,234) is a pair. kTurned is the reverse.
enum class Commas : std::uint8_t { kUsual, kTurned };

// Throws Unreadable when the text is longer than kLongestMath, or nothing could make sense of it (a loose
// backslash, an ellipsis, a character without mathematical meaning).
Tokens tokens_of(std::string_view text, Commas commas);

}  // namespace routeopd::grade::math
