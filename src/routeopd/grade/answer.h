// The answer a response gives, and whether it is right. docs/grading.md has the rules, each with an example.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace routeopd::grade {

// Names the way answers are found and compared: two runs compare only when it is the same.
inline constexpr const char* kExtractor = "math-3";

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

// In the order of precedence of the paper's labels: a response is correct; or else it is a format error, if
// no answer could be read (!format_ok); or else its content is wrong. So `correct` implies `format_ok`.
// Whether a response was cut off is a third thing, which the text does not tell: whoever sampled it records
// it beside these, and a response that was cut off but holds an answer is graded like any other.
struct Grade {
  std::string extracted;   // the answer as written, trimmed; empty where there is none
  bool format_ok = false;  // there is an answer, and it is readable (readable.h) or the known one itself
  bool correct = false;
};

// Finds the answer of a response and compares it with `answer`; `in_thought` says that the
// prompt left a <think> open. Deterministic. Time and memory are linear in the response, plus the bounded
// cost of one comparison (math/budget.h).
Grade grade_response(std::string_view response, std::string_view answer, bool in_thought = false);

// An answer, read. Cheap to copy.
class Answer {
 public:
  explicit Answer(std::string_view text);

  // Answers with the same key are the same: "1/2" and "0.5" have one key. Answers with different keys may
  // still be equivalent.
  const std::string& key() const;

  // Whether `given` is right where `reference` is wanted. Not symmetric: 10 is right where 10\% is wanted,
  // but not the other way round. Votes are for interchangeable() answers.
  friend bool equivalent(const Answer& reference, const Answer& given);

 private:
  struct Reading;
  std::shared_ptr<const Reading> reading_;
};

bool equivalent(const Answer& reference, const Answer& given);

// Whether each is right where the other is wanted: for two answers of which neither is known to be right.
bool interchangeable(const Answer& one, const Answer& other);

}  // namespace routeopd::grade
