// What a judge left: labels of the responses of one or more evaluations. Reading never throws (run_files.h).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "routeopd/report/run_files.h"

namespace routeopd::report {

struct JudgedRun {
  std::string name, directory;  // of the evaluation
  std::vector<ResponseLabel> labels;
};

struct JudgeFiles {
  std::string shown;
  Json summary;  // null where there is none
  std::vector<JudgedRun> runs;
  std::vector<std::string> missing;
};

JudgeFiles read_judge(const std::filesystem::path& directory);

}  // namespace routeopd::report
