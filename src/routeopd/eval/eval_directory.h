// An eval directory while it is being filled. Responses are appended to responses.jsonl as they end, beside
// protocol.json, which names what is evaluated and how; after any interruption the same evaluation resumes
// there. When all responses are there, their lines are put in order, problems.jsonl and summary.json are
// written, and protocol.json is removed.
//
//   protocol.json   summary.json without figures: model, decoding, seed, template, extractor, and file and
//                   sha256 of each suite
//   problems.jsonl  {"suite","problem","samples","right","avg","pass@k","maj@k","tokens","clip_rate",
//                   "format_rate"}
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "routeopd/base/files.h"
#include "routeopd/base/line_file.h"
#include "routeopd/grade/eval_files.h"

namespace routeopd::eval {

// A suite as the directory sees it.
struct SuiteProblems {
  std::string name;
  std::vector<std::string> ids;  // of its problems, each once
};

class EvalDirectory {
 public:
  // Throws UserError for a directory that is complete, in use, or of another protocol (naming the field that
  // differs; paths of the model and the suites do not count, their contents do), or that holds something
  // else.
  EvalDirectory(const std::filesystem::path& path, const Json& protocol, std::vector<SuiteProblems> suites,
                std::int32_t n);

  // Samples of a problem that are not there yet, ascending.
  std::vector<std::int32_t> missing(std::size_t suite, std::size_t problem) const;
  std::int64_t missing() const;  // of all
  std::int64_t total() const;
  std::int64_t found() const { return found_; }  // when it was opened

  // A response to `problem` that is still missing; its line is with the system when the call returns.
  void add(std::size_t suite, std::size_t problem, grade::EvalResponse response);

  // When nothing is missing: what summary.json has.
  Json finish();

  // By suite, problems in order, samples in order, once nothing is missing; their texts are in the file
  // alone.
  const std::vector<std::vector<grade::EvalResponse>>& responses() const { return responses_; }

 private:
  std::size_t place(std::size_t problem, std::int64_t sample) const;
  void read_found();

  std::filesystem::path path_;
  Json protocol_;
  std::vector<SuiteProblems> suites_;
  std::int32_t n_;
  std::optional<DirectoryLock> lock_;
  std::optional<LineFile> lines_;
  std::vector<std::vector<grade::EvalResponse>> responses_;  // [suite][problem * n + sample]
  std::vector<std::vector<std::int64_t>> line_of_;           // the same; -1: missing
  std::int64_t found_ = 0, added_ = 0;
};

// Whether a directory holds a complete evaluation, whatever its protocol.
bool is_complete(const std::filesystem::path& path);

// Whether it holds an evaluation of this protocol that was stopped, which EvalDirectory then resumes.
bool is_resumable(const std::filesystem::path& path, const Json& protocol);

// Grades the responses of a directory again, complete or stopped half-way, where its protocol differs only in
// the extractor; says whether it did. `regrade` sets extracted, correct and format_ok of a response. A
// complete directory is then one that has all of its responses and no figures yet. May be killed at any
// moment and repeated.
bool grade_again(const std::filesystem::path& path, const Json& protocol,
                 const std::function<void(grade::EvalResponse&)>& regrade);

// The summary of a complete evaluation; none where there is no complete one. Throws UserError, naming the
// field, for one of another protocol.
std::optional<Json> finished_evaluation(const std::filesystem::path& path, const Json& protocol);

}  // namespace routeopd::eval
