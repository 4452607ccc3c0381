// The answer a response gives, and whether it is right.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace routeopd::grade {

// Names the way answers are read: two runs compare only when it is the same.
inline constexpr const char* kExtractor = "math-1";

struct Grade {
  std::string extracted;   // the answer as written, trimmed; empty when there is none
  bool format_ok = false;  // an answer could be read
  bool correct = false;
};

// Reads the answer after the last "final answer is" (in any case), or else inside the last \boxed{…}, and
// compares it with `answer`: whole numbers by value, all else as text.
//
//   After the phrase: white space, one ':' and '$' are passed over, then the answer goes on to the end of the
//   line or of the sentence (a '.' before white space or the end). A \boxed{…} that begins there is opened,
//   even if it ends later. A phrase that nothing follows counts as no phrase.
//   The last box is the one that begins last among those whose braces match; \{ and \} are text, not braces.
//   Both sides are trimmed of white space and '$', and of '.' at the end. A whole number is a sign (+, -, or
//   U+2212), digits, and commas between groups of three or none; its length is free.
//
// Time and memory are linear in the response.
Grade grade_response(std::string_view response, std::string_view answer);

// Two answers are the same if and only if their keys are: the digits of a whole number ("-1,050" and
// "-01050" have the key "-1050"), the trimmed text of all else.
std::string answer_key(std::string_view answer);

}  // namespace routeopd::grade
