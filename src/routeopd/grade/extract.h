// Where a response gives its answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace routeopd::grade {

struct Extracted {
  std::string text{};     // the answer as written, trimmed; empty where there is none
  bool readable = false;  // readable.h; what is not readable is an answer only if it is the known one
};

// Looks outside of thoughts only (below), and takes the first of these that is readable:
//
//   1. the last "final answer is …", "Final answer: …" or such a heading, if mathematics follows it and
//      no box does;
//   2. the last \boxed{…} or \fbox{…} (boxes.h);
//   3. the phrase of 1, or the last "answer is …" or "Answer: …" (phrases.h), with mathematics after it;
//   4. the same with a name or a short phrase after it.
//
// Where none is readable, the text of the first that has any. A number that merely stands somewhere is no
// answer: the required delimiter is missing. Time and memory are linear in the response.
//
// Thoughts stand between <think> and </think>, and what stands before the last </think> is not looked at. A
// <think> that never closes holds no answer; `in_thought` says that one was open when the response began.
Extracted extracted_answer(std::string_view response, bool in_thought = false);

// Whether a prompt ends with <think>, white space aside, as
// some chat templates do: its response begins in thought.
bool opens_thought(std::string_view prompt);

}  // namespace routeopd::grade
