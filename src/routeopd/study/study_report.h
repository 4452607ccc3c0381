// A study's part of a report: what was run, its figures and its tables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "routeopd/report/directory_report.h"
#include "routeopd/study/study_results.h"

namespace routeopd::study {

report::Chapter study_chapter(const StudyResults& study);

// A report of this study alone. An empty title is made from its directory.
report::Report study_report(const StudyResults& study, std::string title);

// For report::report_of().
report::StudyReader study_reader();

}  // namespace routeopd::study
