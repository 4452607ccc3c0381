// Whether a text is an answer at all: mathematics, a choice,
// or a name or short phrase as a known answer could be.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace routeopd::grade {

// Whether a text is an answer in numbers or symbols rather than in words. It has a digit or a sign, or hardly
// anything at all, since "as above" could be read as a product of letters.
bool is_mathematics(std::string_view text);

// The longest beginning of a text, of its first dozen words, that is
// mathematics: of "42, since 6*7=42" it is 42. It has a digit or a command,
// for any word may begin like a product of letters. Empty where there is none.
std::string_view leading_mathematics(std::string_view text);

// A name or phrase has at most this many words: "the set of all real numbers" has six.
inline constexpr std::size_t kMostPhraseWords = 6;

// What `format_ok` means. The first of these that holds:
//
//   a choice (math/plain_text.h), or mathematics, with whatever words after it;
//   a short phrase: a letter or a digit, braces that match, at most kMostPhraseWords words, and none of
//   those that speak about an answer instead of being one ("unclear", "which", "correct", "we"). Commands
//   and formulas that the parser does not know may be in it: x \equiv 3 \pmod 7.
//
// Time is linear in the text.
bool is_readable(std::string_view text);

}  // namespace routeopd::grade
