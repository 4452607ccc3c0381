// A study's part of a report: what was run, its figures and its tables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "routeopd/report/directory_report.h"
#include "routeopd/study/study_results.h"

namespace routeopd::study {

// `suites`: of which the tables and figures of behaviour, dynamics and ablations are (study_suites.h); none:
// all.
report::Chapter study_chapter(const StudyResults& study, const std::vector<std::string>& suites = {});

// A report of this study alone. An empty title is made from its directory.
report::Report study_report(const StudyResults& study, std::string title);

// For report::report_of(). Its reading throws UserError where no study has one of the suites.
report::StudyReader study_reader(const std::vector<std::string>& suites = {});

}  // namespace routeopd::study
