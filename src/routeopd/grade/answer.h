// The answer a response gives, and whether it is right. The rules, each with an example, stand in
// docs/grading.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace routeopd::grade {

// Names the way answers are found and compared: two runs compare only when it is the same.
inline constexpr const char* kExtractor = "math-1";

// In the order of precedence of the paper's labels: a response is correct; or else it is a format error, if
// nothing could be read from it (!format_ok); or else its content is wrong. So `correct` implies `format_ok`.
// Whether a response was cut off is a third thing, which the text does not tell: it is recorded beside these by
// whoever sampled it, and a response that was cut off but holds an answer is graded like any other.
struct Grade {
  std::string extracted;   // the answer as written, trimmed; empty when there is none
  bool format_ok = false;  // an answer could be read
  bool correct = false;
};

// Finds the answer of a response (grade/extract.h) and compares it with `answer`. Deterministic. Time and memory
// are linear in the response, plus the bounded cost of one comparison (grade/math/budget.h).
Grade grade_response(std::string_view response, std::string_view answer);

// An answer, read. Cheap to copy.
class Answer {
 public:
  explicit Answer(std::string_view text);

  // Answers with the same key are the same: "1/2" and "0.5" have one key. Answers with different keys may still
  // be equivalent.
  const std::string& key() const;

  // Whether `given` is right where `reference` is wanted. Not symmetric: 10 is right where 10\% is wanted, but
  // not the other way round.
  friend bool equivalent(const Answer& reference, const Answer& given);

 private:
  struct Reading;
  std::shared_ptr<const Reading> reading_;
};

bool equivalent(const Answer& reference, const Answer& given);

}  // namespace routeopd::grade
