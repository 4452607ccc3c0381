// A report of directories: runs, evaluations, probes, judgements and studies, each known by its files.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "routeopd/report/block.h"
#include "routeopd/report/run_files.h"

namespace routeopd::report {

enum class DirectoryKind { kRun, kEval, kProbe, kJudge, kStudy };

// Throws UserError, which says what was looked for, for a directory that is none of these.
DirectoryKind kind_of_directory(const std::string& directory);

// A report of all of them, in this order: studies, runs, evaluations, probes, judgements. What is broken in their files
// becomes sentences of the report. An empty title is made from the directories.
Report report_of(const std::vector<std::string>& directories, std::string title);

// A study's report: what was run, its figures and its tables.
Report study_report(const StudyFiles& study, std::string title);

}  // namespace routeopd::report
