// What was run: a directory's models, settings and dates, as rows of a report's first table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/report/block.h"
#include "routeopd/report/run_files.h"

namespace routeopd::report {

struct Fact {
  std::string what;   // "student"
  std::string value;  // empty: it is not known
};

std::vector<Fact> facts_of(const RunFiles& run);
std::vector<Fact> facts_of(const EvalFiles& eval);
std::vector<Fact> facts_of(const ProbeFiles& probe);
std::vector<Fact> facts_of(const JudgeFiles& judge, const std::string& directory);

// The section of a report that has them, directory by directory. A long value is broken after a comma into
// lines of its own.
Section facts_section(const std::vector<std::pair<std::string, std::vector<Fact>>>& by_directory);

// When the newest file of a directory was written, reports apart: "2026-11-16 18:40 UTC". So the same files
// give the same page, whenever it is made.
std::string newest_date(const std::string& directory);

// The value under a key; null where there is none.
const Json& at_or_null(const Json& object, const char* key);

// The text at object[section][key]; empty where there is none.
std::string text_in(const Json& object, const char* section, const char* key);

// An object in one line: "k 16, m 2, seeds [42,43]".
std::string compact(const Json& value);

}  // namespace routeopd::report
