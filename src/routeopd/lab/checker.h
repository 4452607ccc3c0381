// What went wrong in a response to a laboratory problem, read from the response itself: every step of a
// solution names what it does and its result, so the first mistake can be seen without a judge. The labels
// are those of the error taxonomy (judge/labels.h), one for each response:
//
//   correct         the final answer is right, however it was found
//   format          no answer can be read
//   arithmetic      the first wrong thing is a result: what was done is right, what came out is not
//   premature_stop  every step that is there is right, not all are there, and the answer is that of the last
//   reasoning       all else: a wrong or missing step, an invented one, an answer without steps
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>

#include "routeopd/lab/task.h"

namespace routeopd::lab {

// The label of any response to a problem of the task.
judge::Label label_of(const Task& task, std::string_view problem, const grade::EvalResponse& response);

// Writes labels.jsonl beside responses.jsonl of a complete eval directory. `problems`: texts by id. Throws
// UserError for a response to a problem that is not among them.
void label_directory(const std::filesystem::path& directory, const Task& task,
                     const std::unordered_map<std::string, std::string>& problems);

}  // namespace routeopd::lab
