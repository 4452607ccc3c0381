// Where a response gives its answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace routeopd::grade {

// The answer as written, trimmed; empty when there is none. Only the text behind the last "</think>" is looked
// at, if there is one. The first of these that yields something:
//
//   1. the last "final answer is …", "Final answer: …" or such a heading, if mathematics follows it and no box does;
//   2. the last \boxed{…} or \fbox{…} whose braces match; boxes with nothing but a comma, a semicolon, "and" or
//      "or" between them are one answer, joined by ", ";
//   3. the phrase of 1, or the last "answer is …" or "Answer: …", with mathematics behind it;
//   4. the same with whatever words follow.
//
// After a phrase white space, a colon, ** and the signs that open mathematics are passed over. A box there, or
// mathematics between $…$, \(…\) or \[…\], is taken whole; otherwise the answer goes on to the end of the line or
// of the sentence (a point before white space or the end). A phrase that nothing follows counts as no phrase. A
// number that merely stands somewhere is no answer: the required delimiter is missing.
//
// Time and memory are linear in the response.
std::string extracted_answer(std::string_view response);

// Without white space, $, ** and \( \) \[ \] around it, and without points and commas at its end.
std::string_view trimmed(std::string_view text);

}  // namespace routeopd::grade
