// Answers as text: words, and the letters of multiple choice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace routeopd::grade::math {

// The text without what LaTeX only needs to show it: \text and its like, \left, \right, spaces, $, braces.
// "\left(x \right)" is "(x)".
std::string bare_text(std::string_view text);

// The words of an answer that consists of words alone, in lower case, without spaces and punctuation:
// "\text{No solution.}" is "nosolution". Nothing where there is anything else, or nothing at all.
std::optional<std::string> words_of(std::string_view text);

// \textbf{(B)}\ 12 is choice B with the text 12; C, (C) and \text{C.} are choices without one.
struct Choice {
  char letter = 0;  // A to E
  std::string_view text{};
};
std::optional<Choice> choice_of(std::string_view text);

// Whether the text after a choice takes it back or names another: "(C) or (D)", "(C) is wrong".
bool hedges(std::string_view after);

}  // namespace routeopd::grade::math
