// A study as some of its suites have it, for tables and figures of one suite or of a few.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/report/block.h"
#include "routeopd/study/study_results.h"

namespace routeopd::study {

// Names of the suites that the study's evaluations have, ascending.
std::vector<std::string> suites_of(const StudyResults& study);

// The study with these suites alone in every evaluation: grades, labels, and summaries with their means over
// what is left (intervals of means are dropped). What belongs to no suite stays as it is.
StudyResults restricted_to(const StudyResults& study, const std::vector<std::string>& suites);

// A study as the tables and figures that are made suite by suite have it.
struct StudyBySuite {
  std::vector<std::string> suites;     // that are shown
  std::optional<StudyResults> pooled;  // the study with them alone; none: they are all that it has
  std::vector<StudyResults> singles;   // with each of them alone; none where there is one
};

// `chosen`: names, of which those that the study has count; none of them: all.
StudyBySuite by_suite(const StudyResults& study, const std::vector<std::string>& chosen);

// Whether a table or figure of this id is made suite by suite: behaviour, dynamics and ablations.
bool is_by_suite(std::string_view id);

// Adds to `blocks`, which were made of the pooled suites, those of each suite alone; their ids and titles end
// in its name. Where not all suites are shown, the titles of the pooled ones say which.
void add_suites(const StudyBySuite& split,
                const std::function<std::vector<report::Block>(const StudyResults&)>& make,
                std::vector<report::Block>& blocks);

}  // namespace routeopd::study
