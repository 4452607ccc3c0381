// One whole synthetic study, its tables, and what they must hold, for the tests of tables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "routeopd/study/study_tables.h"
#include "routeopd/study/study_view.h"
#include "study/study_blocks.h"
#include "study/synthetic_study.h"

namespace routeopd::study {

using Study = SyntheticStudy;

// One complete study for all tests that only read.
inline const StudyResults& study_files() {
  static const StudyResults files = [] {
    const TemporaryDirectory home;
    const Study study(home.path());
    return read_results(home.path());
  }();
  return files;
}

inline const StudyTables& tables() {
  static const StudyTables all = study_tables(study_files());
  return all;
}

inline const std::vector<Section>& sections() {
  return tables().sections;
}

// "PAPER | HERE | OUTCOME" of an effect.
inline std::string verdict(const std::string& effect) {
  return verdict_in(tables().verdicts, effect);
}

inline const Block& block(const std::string& id) {
  return block_in(sections(), id);
}

inline std::string cell(const std::string& id, const std::string& row, const std::string& title,
                        int nth = 0) {
  return cell(block(id), row, title, nth);
}

// All seeds' samples of a problem side by side.
inline grade::Correctness grades(const std::string& who, const std::function<bool(int)>& only = {}) {
  grade::Correctness all{0, Study::kSamples * std::ssize(Study::seeds()), {}};
  for (int p = 0; p < Study::kProblems; ++p) {
    if (only && !only(p)) continue;
    ++all.problems;
    for (const int seed : Study::seeds())
      for (int s = 0; s < Study::kSamples; ++s)
        all.correct_PS.push_back(Study::right(who, seed, Study::kSteps, p, s));
  }
  return all;
}

inline grade::Interval contrast(const std::string& first, const std::string& second,
                                const std::function<bool(int)>& only = {}) {
  const grade::Correctness a = grades(first, only), b = grades(second, only);
  return grade::paired_contrast({&a, 1}, {&b, 1}, {});
}

inline double share(const std::string& who, int seed, int step = Study::kSteps) {
  double right = 0;
  for (int p = 0; p < Study::kProblems; ++p)
    for (int s = 0; s < Study::kSamples; ++s) right += Study::right(who, seed, step, p, s) ? 1 : 0;
  return right / (Study::kProblems * Study::kSamples);
}

}  // namespace routeopd::study
