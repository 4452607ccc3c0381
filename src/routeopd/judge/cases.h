// What is to be labelled: the responses of eval directories, and the problems that they answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "routeopd/judge/prompt.h"

namespace routeopd::judge {

struct LabelledRun {
  std::string name;  // the directory's own, or its whole path where two have the same
  std::string directory;
  std::vector<grade::EvalResponse> responses;       // in the file's order; their texts are in the cases
  std::vector<std::optional<std::size_t>> case_of;  // of each response; none where no judge is needed
};

struct JudgeInput {
  std::vector<LabelledRun> runs;
  std::vector<JudgeCase> cases;  // distinct: responses that are equal in two runs are judged once
};

// Reads eval directories of one protocol. A suite's problems come from `suite_files[NAME]`, or else from the
// file that summary.json names; either must have the SHA-256 in summary.json. With `only` nothing but the
// responses of these suites is read, and the others' problems need not be there. Throws UserError.
JudgeInput read_judge_input(const std::vector<std::string>& directories,
                            const std::map<std::string, std::string>& suite_files,
                            const std::set<std::string>& only = {});

}  // namespace routeopd::judge
