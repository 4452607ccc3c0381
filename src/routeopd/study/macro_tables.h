// Several studies together, as the paper's main table has its pairs: a section for each setting, and the mean
// over settings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "routeopd/study/study_view.h"

namespace routeopd::study {

// The mean over studies of second - first, every study with the same weight and within it every suite. A
// stratified bootstrap: problems are drawn within each suite of each study; a suite that several studies have
// (name, file and problems) has the same draw in all. None where a study has no seed of both.
std::optional<grade::Interval> macro_contrast(const std::vector<StudyView>& studies, const std::string& first,
                                              const std::string& second);

// The same of one variant's accuracy.
std::optional<grade::Interval> macro_average(const std::vector<StudyView>& studies, const std::string& name);

// What leads the page of several studies.
struct MacroReport {
  std::string question, answer;
  Section section;
};
MacroReport macro_report(const std::vector<StudyView>& studies);

}  // namespace routeopd::study
