// F.decontaminated.json, beside a training file F that was cleaned: what F was checked against, and F's
// SHA-256, so that a run can tell whether its prompts are those that were checked.
//
//   {"version", "sha256",
//    "settings": {"words", "characters", "coverage", "keep_duplicates", "keep_conflicts"},
//    "original": {"file", "sha256"}, "tests": [{"file", "sha256", "problems"}],
//    "counts": what `decontaminate --json` prints}
//
// Files are named without their directories, so that a record can move with its file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "routeopd/decontamination/decontaminate.h"

namespace routeopd::decontamination {

std::string record_path(const std::string& file);

// For a file that was written (result.out_sha256).
void write_record(const DecontaminateOptions& options, const Decontamination& result);

// A warning for a run that trains on `prompts`: never checked, changed since, or not checked against one of
// the `suites` that the run will be evaluated on. Empty where the record covers all of it. A record that
// cannot be read counts as none; this throws no UserError for what it holds.
std::string contamination_warning(const std::string& prompts, const std::vector<std::string>& suites);

}  // namespace routeopd::decontamination
