// An eval directory: responses.jsonl, one graded response a line, and summary.json.
//
//   responses.jsonl  {"suite","problem","sample","response","extracted","correct","format_ok","clipped","tokens"}
//   summary.json     {"model", "decoding", "seed", "template", "extractor",
//                     "suites": {NAME: {"file", "sha256", and what suite_summary gives}},
//                     "average": means over suites, "avg": the mean of their avg}
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
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
};

Json json_of(const EvalResponse& response);

// A line of responses.jsonl with its line feed. Bytes that are not UTF-8 become U+FFFD: a model can write half
// a character, and a file that cannot be read back would lose the whole run.
std::string line_of(const EvalResponse& response);

// The reverse of json_of. Throws UserError, which begins with `where`, for a missing field or one of another
// type.
EvalResponse response_of(const Json& line, const std::string& where);

struct EvalSuite {
  std::string name;
  std::vector<std::string> problems;  // ids in the order they were first seen; the rows of `correctness`
  Correctness correctness;
};

struct EvalRun {
  std::string directory;
  Json summary;
  std::vector<EvalSuite>
      suites;  // by name, so that nothing hangs on the order in which suites were evaluated
};

// Throws UserError unless summary.json has every field that tells whether two runs are comparable, and
// responses.jsonl has each (problem, sample) that it promises exactly once.
EvalRun read_eval_directory(const std::filesystem::path& directory);

// What summary.json says of one suite, from all of its responses in any order:
//   n, samples, avg, avg_interval [low, high], pass@k {"1", "2", "4", … and samples},
//   maj@k (same k: the most frequent answer among samples 0 … k-1, the earliest on a tie, is right),
//   length {mean, p10, p25, p50, p75, p90, max} in tokens, clip_rate, format_rate.
// Rates and averages are fractions. Throws UserError as read_eval_directory does.
Json suite_summary(std::span<const EvalResponse> responses, const Bootstrap& bootstrap);

// The same of each problem by itself, in the order in which problems were first seen: suite, problem, samples, right, avg,
// pass@k, maj@k, tokens (mean), clip_rate, format_rate.
std::vector<Json> problem_summaries(std::span<const EvalResponse> responses);

// Means over suites of what suite_summary says of each, every suite with the same weight, and the interval of their avg.
Json average_summary(std::span<const std::vector<EvalResponse>> responses, std::vector<Json> summaries,
                     const Bootstrap& bootstrap);

}  // namespace routeopd::grade
