// Directories of evaluations and of judges as plain data. Reading never throws: every struct says in
// `missing`, a sentence each, what of it is not there, is cut or is of another type, and holds what could be
// read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/grade/eval_files.h"
#include "routeopd/judge/labels.h"

namespace routeopd::report {

// A line of labels.jsonl.
struct ResponseLabel {
  std::string suite, problem;
  std::int64_t sample = 0;
  judge::Label label = judge::Label::kUnjudged;
};

// An eval directory.
struct EvalFiles {
  std::string shown;  // how sentences call the directory
  std::filesystem::path directory;
  std::optional<std::int64_t> step;      // of a run's evaluations
  Json summary;                          // summary.json, an object; null where there is none
  std::optional<grade::EvalRun> grades;  // of every response; read where responses were asked for
  std::vector<ResponseLabel> labels;     // the same; empty where nothing was labelled
  std::vector<std::string> missing;
};

// `shown` is how sentences call the directory; its own path where it is empty.
EvalFiles read_eval(const std::filesystem::path& directory, bool responses = true, std::string shown = {});

// What a judge says of one evaluation.
struct JudgedRun {
  std::string name, directory;  // of the evaluation
  std::vector<ResponseLabel> labels;
};

// A judge's directory: labels of the responses of one or more evaluations.
struct JudgeFiles {
  std::string shown;
  Json summary;  // null where there is none
  std::vector<JudgedRun> runs;
  std::vector<std::string> missing;
};

JudgeFiles read_judge(const std::filesystem::path& directory);

// Puts a judge's labels of this evaluation in the place of those that lie beside its responses.
void use_judgements(const std::vector<JudgeFiles>& judges, EvalFiles& eval);

}  // namespace routeopd::report
