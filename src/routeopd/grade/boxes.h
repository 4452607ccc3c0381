// \boxed{…} and \fbox{…}: the delimiters of an answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace routeopd::grade {

// What the box that begins last holds, trimmed; empty where there is none. Boxes with
// nothing but a comma, a semicolon, "and" or "or" between them are one answer, joined by ",
// ". A box whose braces do not match is none; \boxed 5 and \boxed5 hold the number. With
// `reach`, only boxes that begin before that place count, and those inside of them: a box
// may end after the sentence in which it begins. Time and memory are linear in the text.
std::string boxed_answer(std::string_view text, std::size_t reach = std::string_view::npos);

// Where the last box begins, counted from 1, whether it closes or not; 0 where there is none.
std::size_t last_box(std::string_view text);

}  // namespace routeopd::grade
