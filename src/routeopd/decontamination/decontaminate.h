// A training file against test files: what overlaps, what it has twice, and the file without either.
//
// The training file is streamed twice, once to look and once to copy. Kept in memory: the test problems with
// their n-grams, and some 100 bytes for each different training row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/decontamination/contamination.h"

namespace routeopd::decontamination {

struct DecontaminateOptions {
  std::string train;
  std::vector<std::string> tests;
  std::string out;  // the cleaned file; empty: only look
  ContaminationOptions contamination;
  bool keep_duplicates = false;  // rows that are equal, normalised, to an earlier one
  bool keep_conflicts =
      false;  // groups of equal rows whose answers differ; keep_duplicates holds for them too
};

struct MeasureCounts {
  Measure measure;
  std::int64_t any = 0;        // test problems that share an n-gram with some row
  std::int64_t covered = 0;    // that one row covers by the share asked
  std::int64_t too_short = 0;  // without an n-gram
};

struct TestCounts {
  std::string file, sha256;
  std::int64_t problems = 0;
  std::int64_t raw = 0, normalised = 0;  // problems that equal a row; the second counts the first
  std::vector<MeasureCounts> measures;
  std::int64_t rows = 0;  // training rows that hit one of its problems
};

struct Decontamination {
  std::string train, train_sha256;
  // Of the rows' normal forms, chained: d = sha256(d + text) over the rows, from an empty d. Serves to
  // compare implementations of the normal form.
  std::string normalised_sha256;
  std::int64_t rows = 0, unique_raw = 0, unique_normalised = 0;
  std::int64_t conflicts_raw = 0, conflicts_normalised = 0;  // groups
  std::vector<TestCounts> tests;
  // Rows by what becomes of them, each counted once, by the first that applies.
  std::int64_t contaminated = 0, conflicting = 0, duplicates = 0, kept = 0;
  std::string out_sha256;  // empty where nothing was written
};

Json json_of(const ContaminationOptions& options);
Json json_of(const Decontamination& result);

// Called for every hit as it is found.
using HitSink = std::function<void(const Contamination& all, const Hit& hit, const ProblemLine& row)>;
// Called now and then with the bytes of the training file that were read in this pass, and the file's size.
using ReadWatch = std::function<void(std::int64_t done, std::int64_t total)>;

// Writes `out`, and its record beside it (record.h). Throws UserError for files that cannot be read or
// written, have broken lines, or change while they are being read.
Decontamination decontaminate(const DecontaminateOptions& options, const HitSink& sink = {},
                              const ReadWatch& watch = {});

}  // namespace routeopd::decontamination
