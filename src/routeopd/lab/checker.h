// What went wrong in a response to a laboratory problem, read from the response itself: every step of a
// solution names its operands, its operation and its result, so the first mistake can be seen without a
// judge. The labels are those of the error taxonomy (grade/judge/labels.h), one for each response:
//
//   correct         the final answer is right, however it was found
//   format          no answer can be read
//   arithmetic      the first wrong thing is a result: right operation and operands, wrong number
//   premature_stop  every step that is there is right, not all operations are done, and the last value is the
//                   answer
//   reasoning       all else: a wrong operand or operator, an invented step, an answer without steps
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>

#include "routeopd/judge/labels.h"
#include "routeopd/lab/task.h"

namespace routeopd::lab {

// The label of a response whose answer is wrong: arithmetic, premature_stop or reasoning.
judge::Label check_solution(const Problem& problem, std::string_view response);

// The label of any response.
judge::Label label_of(const Problem& problem, const grade::EvalResponse& response);

// Writes labels.jsonl beside responses.jsonl of a complete eval directory. Throws UserError for a response to
// a problem that is not in `problems` (by id).
void label_directory(const std::filesystem::path& directory,
                     const std::unordered_map<std::string, Problem>& problems);

}  // namespace routeopd::lab
