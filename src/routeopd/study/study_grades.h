// Accuracy and paired contrasts of a study's variants, seeds pooled: problems are drawn, and all seeds'
// samples of a problem stay together (docs/method.md, Evaluation).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/grade/statistics.h"
#include "routeopd/study/study_results.h"

namespace routeopd::study {

struct Accuracy {
  grade::Interval average;        // Avg@n over suites, all seeds together
  std::vector<double> per_seed;   // Avg@n over suites
  std::vector<double> per_suite;  // all seeds together
};

struct Contrast {
  grade::Interval difference;  // second - first
  std::size_t seeds = 0;       // that both have
};

// Two variants' grades over the seeds that both have, suite by suite.
struct PairedGrades {
  std::vector<grade::Correctness> first, second;
};

// What tells a suite from others.
struct SuiteIdentity {
  std::string name, sha256;           // of its file
  std::vector<std::string> problems;  // in the order of the grades

  bool operator==(const SuiteIdentity&) const = default;
};

class StudyGrades {
 public:
  // The base's evaluation says what is compared; where it is missing, the first that can be read. Evaluations
  // of another protocol are skipped.
  explicit StudyGrades(const StudyResults& study) : StudyGrades(study, study.runs) {}

  // The same with other runs beside the base and the teacher: those at one shared learning rate.
  StudyGrades(const StudyResults& study, const std::vector<StudyRun>& runs);

  // A sentence for each evaluation that was skipped.
  const std::vector<std::string>& missing() const { return missing_; }

  bool has(const std::string& name) const { return graded_.contains(name); }
  std::int64_t samples() const { return samples_; }  // of a problem, the n of Avg@n; 0 where nothing was read
  std::int64_t problems() const;
  const std::vector<std::string>& suites() const { return suites_; }

  std::optional<Accuracy> accuracy(const std::string& name) const;

  // Which problems count: of suite number `suite`, the one called `problem`.
  using Only = std::function<bool(std::size_t suite, const std::string& problem)>;
  // None where no seed is shared or no problem counts.
  std::optional<Contrast> contrast(const std::string& first, const std::string& second,
                                   const Only& only = {}) const;
  std::optional<grade::Interval> average(const std::string& name, const Only& only) const;

  // For statistics over several studies. None where no seed is shared.
  std::optional<PairedGrades> paired(const std::string& first, const std::string& second) const;
  std::vector<SuiteIdentity> identities() const;

  // The share of responses with a label, second - first. None where a seed that both have is not labelled
  // whole in both.
  std::optional<Contrast> label_contrast(const std::string& first, const std::string& second,
                                         judge::Label label) const;

  // Over the shared seeds and all suites.
  std::optional<grade::Transitions> transitions(const std::string& first, const std::string& second) const;

 private:
  using Suites = std::vector<grade::Correctness>;  // rows in the order of problems_

  void add(const std::string& name, std::int64_t seed, const report::EvalFiles& eval);
  void add_labels(const std::string& name, std::int64_t seed, const report::EvalFiles& eval);
  std::vector<std::int64_t> shared_seeds(const std::string& first, const std::string& second) const;
  Suites pooled(const std::string& name, const std::vector<std::int64_t>& seeds, const Only& only) const;

  std::optional<grade::EvalRun> reference_;
  std::string reference_shown_;
  std::vector<std::string> suites_;
  std::vector<std::vector<std::string>> problems_;  // of each suite
  std::map<std::string, std::map<std::int64_t, Suites>> graded_;
  // as graded_
  std::map<std::string, std::map<std::int64_t, std::vector<std::vector<judge::Label>>>> labels_;
  std::int64_t samples_ = 0;
  std::vector<std::string> missing_;
};

}  // namespace routeopd::study
