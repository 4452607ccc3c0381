// The answer a response gives, and whether it is right.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace routeopd::grade {

struct Grade {
  std::string extracted;   // the answer as written, trimmed; empty when there is none
  bool format_ok = false;  // an answer could be read
  bool correct = false;
};

// Reads the answer after the last "final answer is", or else inside the last \boxed{…}, and compares it with
// `answer`: whole numbers by value, all else as text.
Grade grade_response(std::string_view response, std::string_view answer);

}  // namespace routeopd::grade
