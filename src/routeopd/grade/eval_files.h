// An eval directory: responses.jsonl, one graded response per line, and summary.json.
//
//   responses.jsonl  {"suite","problem","sample","response","extracted","correct","format_ok","clipped",
//                     "tokens", "in_thought" where the prompt opens one}
//   summary.json     {"model", "decoding", "seed", "template", "extractor",
//                     "suites": {NAME: {"file", "sha256", and what suite_summary.h gives}},
//                     "average": means over suites, "avg": the mean of their avg}
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/grade/statistics.h"

namespace routeopd::grade {

struct EvalResponse {
  std::string suite;
  std::string problem;      // its id in the suite
  std::int64_t sample = 0;  // 0 … samples - 1
  std::string response;
  std::string extracted;
  bool correct = false;
  bool format_ok = false;
  bool clipped = false;  // cut off at the limit of new tokens
  std::int64_t tokens = 0;
  // Where the prompt opens a thought: whether the response ends in it. Its text may not show that.
  std::optional<bool> in_thought = std::nullopt;
};

Json json_of(const EvalResponse& response);

// A line of responses.jsonl with its line feed. Bytes that are not UTF-8 become U+FFFD: a model can write
// half a character, and a file that cannot be read back would lose the whole run.
std::string line_of(const EvalResponse& response);

// The reverse of json_of. Throws UserError, which begins with
// `where`, for a missing field or one of another type.
EvalResponse response_of(const Json& line, const std::string& where);

// Graded responses in any order, checked to fill problems × samples exactly once.
class ResponseGrid {
 public:
  // Gives the problem's row: rows are in the order in which problems were first seen. sample >= 0.
  std::int64_t add(const std::string& problem, std::int64_t sample, bool correct);

  const std::vector<std::string>& problems() const { return problems_; }

  // Throws UserError, which begins with `where`, when a (problem, sample) is missing or there twice. No
  // sample that was added may reach `samples`.
  Correctness correctness(std::int64_t samples, const std::string& where) const;

 private:
  // A list and not a table: what a file claims about its size takes no memory before it is seen to be true.
  struct Entry {
    std::int64_t problem;
    std::int64_t sample;
    bool correct;
  };
  std::vector<Entry> entries_;
  std::vector<std::string> problems_;
  std::unordered_map<std::string, std::int64_t> rows_;
};

struct EvalSuite {
  std::string name;
  std::vector<std::string> problems;  // ids in the order they were first seen; the rows of `correctness`
  Correctness correctness;
};

struct EvalRun {
  std::string directory;
  Json summary;
  std::vector<EvalSuite> suites;  // by name, so that the order in which they were evaluated does not matter
};

// Throws UserError unless summary.json has every field that tells whether two runs are comparable, and
// responses.jsonl has each (problem, sample) that it promises exactly once.
EvalRun read_eval_directory(const std::filesystem::path& directory);

}  // namespace routeopd::grade
