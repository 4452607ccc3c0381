// Two eval directories of one protocol, problem by problem.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "routeopd/grade/eval_files.h"
#include "routeopd/grade/statistics.h"

namespace routeopd::grade {

// A problem with another number of right samples in B than in A.
struct ProblemChange {
  std::string problem;
  std::int64_t right_a = 0;
  std::int64_t right_b = 0;
};

struct SuiteComparison {
  std::string name;
  std::int64_t problems = 0;
  std::int64_t samples = 0;
  double average_a = 0;
  double average_b = 0;
  Interval contrast;  // B - A
  Transitions transitions;
  std::vector<ProblemChange> changes;  // worst for B first; equal ones in A's order
};

struct Comparison {
  std::string run_a;  // the directories
  std::string run_b;
  Bootstrap bootstrap;
  std::vector<SuiteComparison> suites;
  double average_a = 0;  // means over suites
  double average_b = 0;
  Interval contrast;
  Transitions transitions;  // sums over suites
};

// Throws UserError, naming the field and both values, unless both runs have the same suites (names, sha256,
// problems, samples) under the same decoding, seed, template and extractor.
void check_protocol(const EvalRun& a, const EvalRun& b);

// Throws as check_protocol does. The order of problems may differ; A's is kept. A suite's row and the average
// over suites use the same draws of its problems.
Comparison compare_runs(const EvalRun& a, const EvalRun& b, Bootstrap bootstrap);

// The mean over several pairs of runs, such as one pair per student and teacher: every pair has the same
// weight, and within a pair every suite.
struct MacroRow {
  std::string name;
  std::int64_t pairs = 0;  // that have the suite
  double average_a = 0;
  double average_b = 0;
  Interval contrast;
  Transitions transitions;
};

struct MacroComparison {
  std::vector<Comparison> pairs;
  Bootstrap bootstrap;
  std::vector<MacroRow> suites;  // by name
  MacroRow average;
};

// A bootstrap draw takes the same problems of a suite in all pairs that have
// it. Throws UserError when a pair cannot be compared, and when suites of
// one name are not one suite in all pairs (another file, or other problems).
MacroComparison compare_pairs(std::span<const std::pair<EvalRun, EvalRun>> pairs, const Bootstrap& bootstrap);

}  // namespace routeopd::grade
