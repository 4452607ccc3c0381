// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_grades.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "routeopd/grade/compare.h"
#include "routeopd/report/tolerant_files.h"
#include "routeopd/table/visible_text.h"

namespace routeopd::study {
namespace {

// The grades of a suite with its problems in another order; none where a problem is not in it.
std::optional<grade::Correctness> reordered(const grade::EvalSuite& suite,
                                            const std::vector<std::string>& problems) {
  std::unordered_map<std::string, std::int64_t> row_of;
  for (std::size_t p = 0; p < suite.problems.size(); ++p)
    row_of[suite.problems[p]] = static_cast<std::int64_t>(p);
  grade::Correctness ordered{suite.correctness.problems, suite.correctness.samples, {}};
  for (const std::string& problem : problems) {
    const auto row = row_of.find(problem);
    if (row == row_of.end()) return std::nullopt;
    const auto first = suite.correctness.correct_PS.begin() + row->second * ordered.samples;
    ordered.correct_PS.insert(ordered.correct_PS.end(), first, first + ordered.samples);
  }
  return ordered;
}

}  // namespace

StudyGrades::StudyGrades(const StudyResults& study, const std::vector<StudyRun>& runs) {
  if (study.base) add(kBase, 0, *study.base);
  if (study.teacher) add(kTeacher, 0, *study.teacher);
  for (const StudyRun& run : runs) add(run.name, run.seed, run.eval);
}

void StudyGrades::add(const std::string& name, std::int64_t seed, const report::EvalFiles& eval) {
  if (!eval.grades) return;  // the reader has said why
  if (!reference_) {
    reference_ = eval.grades;
    reference_shown_ = eval.shown;
    for (const grade::EvalSuite& suite : reference_->suites) {
      suites_.push_back(suite.name);
      problems_.push_back(suite.problems);
      samples_ = std::max(samples_, suite.correctness.samples);
    }
  }
  try {
    grade::check_protocol(*reference_, *eval.grades);
  } catch (const std::exception&) {
    missing_.push_back(fmt::format("{}: was evaluated under another protocol than {}; it is not compared",
                                   table::visible(eval.shown), table::visible(reference_shown_)));
    return;
  }
  Suites suites;
  for (std::size_t s = 0; s < suites_.size(); ++s) {
    std::optional<grade::Correctness> ordered = reordered(eval.grades->suites[s], problems_[s]);
    if (!ordered) {
      missing_.push_back(fmt::format("{}: has other problems than the rest; it is not compared",
                                     table::visible(eval.shown)));
      return;
    }
    suites.push_back(std::move(*ordered));
  }
  graded_[name][seed] = std::move(suites);
  add_labels(name, seed, eval);
}

// Labels that skip a response, or name one twice or one that is not there, count as none.
void StudyGrades::add_labels(const std::string& name, std::int64_t seed, const report::EvalFiles& eval) {
  if (eval.labels.empty()) return;
  const Suites& suites = graded_.at(name).at(seed);
  std::map<std::pair<std::string, std::string>, std::pair<std::size_t, std::size_t>> place;
  std::vector<std::vector<judge::Label>> labels;
  std::vector<std::vector<bool>> seen;
  std::size_t responses = 0;
  for (std::size_t s = 0; s < suites_.size(); ++s) {
    for (std::size_t p = 0; p < problems_[s].size(); ++p) place[{suites_[s], problems_[s][p]}] = {s, p};
    labels.emplace_back(suites[s].correct_PS.size());
    seen.emplace_back(suites[s].correct_PS.size());
    responses += suites[s].correct_PS.size();
  }
  bool whole = eval.labels.size() == responses;
  for (const report::ResponseLabel& label : eval.labels) {
    const auto found = place.find({label.suite, label.problem});
    if (found == place.end() || label.sample >= suites[found->second.first].samples) {
      whole = false;
      break;
    }
    const auto [s, p] = found->second;
    const std::size_t at =
        p * static_cast<std::size_t>(suites[s].samples) + static_cast<std::size_t>(label.sample);
    whole = whole && !seen[s][at];
    seen[s][at] = true;
    labels[s][at] = label.label;
  }
  if (whole)
    labels_[name][seed] = std::move(labels);
  else
    missing_.push_back(
        fmt::format("{}/labels.jsonl: does not label every response once", table::visible(eval.shown)));
}

std::int64_t StudyGrades::problems() const {
  std::int64_t count = 0;
  for (const std::vector<std::string>& suite : problems_) count += std::ssize(suite);
  return count;
}

std::vector<std::int64_t> StudyGrades::shared_seeds(const std::string& first,
                                                    const std::string& second) const {
  std::vector<std::int64_t> seeds;
  if (!has(first) || !has(second)) return seeds;
  for (const auto& [seed, suites] : graded_.at(first))
    if (graded_.at(second).contains(seed)) seeds.push_back(seed);
  return seeds;
}

// Suites without a problem that counts are skipped.
StudyGrades::Suites StudyGrades::pooled(const std::string& name, const std::vector<std::int64_t>& seeds,
                                        const Only& only) const {
  Suites all;
  const auto& graded = graded_.at(name);
  for (std::size_t s = 0; s < suites_.size(); ++s) {
    grade::Correctness suite;
    for (const std::int64_t seed : seeds) suite.samples += graded.at(seed)[s].samples;
    for (std::size_t p = 0; p < problems_[s].size(); ++p) {
      if (only && !only(s, problems_[s][p])) continue;
      ++suite.problems;
      for (const std::int64_t seed : seeds) {
        const grade::Correctness& one = graded.at(seed)[s];
        const auto row = one.correct_PS.begin() + static_cast<std::int64_t>(p) * one.samples;
        suite.correct_PS.insert(suite.correct_PS.end(), row, row + one.samples);
      }
    }
    if (suite.problems > 0) all.push_back(std::move(suite));
  }
  return all;
}

std::optional<grade::Interval> StudyGrades::average(const std::string& name, const Only& only) const {
  if (!has(name)) return std::nullopt;
  std::vector<std::int64_t> seeds;
  for (const auto& [seed, suites] : graded_.at(name)) seeds.push_back(seed);
  const Suites suites = pooled(name, seeds, only);
  if (suites.empty()) return std::nullopt;
  return grade::average_interval(suites, grade::Bootstrap{});
}

std::optional<Accuracy> StudyGrades::accuracy(const std::string& name) const {
  const std::optional<grade::Interval> all = average(name, {});
  if (!all) return std::nullopt;
  Accuracy found{.average = *all, .per_seed = {}, .per_suite = std::vector<double>(suites_.size())};
  const auto& graded = graded_.at(name);
  for (const auto& [seed, suites] : graded) {
    double sum = 0;
    for (std::size_t s = 0; s < suites.size(); ++s) {
      const double own = grade::average(suites[s]);
      sum += own;
      found.per_suite[s] += own / static_cast<double>(graded.size());
    }
    found.per_seed.push_back(sum / static_cast<double>(suites.size()));
  }
  return found;
}

std::optional<Contrast> StudyGrades::contrast(const std::string& first, const std::string& second,
                                              const Only& only) const {
  const std::vector<std::int64_t> seeds = shared_seeds(first, second);
  if (seeds.empty()) return std::nullopt;
  const Suites a = pooled(first, seeds, only), b = pooled(second, seeds, only);
  if (a.empty()) return std::nullopt;
  return Contrast{grade::paired_contrast(a, b, grade::Bootstrap{}), seeds.size()};
}

std::optional<PairedGrades> StudyGrades::paired(const std::string& first, const std::string& second) const {
  const std::vector<std::int64_t> seeds = shared_seeds(first, second);
  if (seeds.empty()) return std::nullopt;
  return PairedGrades{pooled(first, seeds, {}), pooled(second, seeds, {})};
}

std::vector<SuiteIdentity> StudyGrades::identities() const {
  std::vector<SuiteIdentity> all;
  for (std::size_t s = 0; s < suites_.size(); ++s) {
    const Json suites = reference_->summary.value("suites", Json::object());
    all.push_back({suites_[s], report::text_at(suites.value(suites_[s], Json()), "sha256"), problems_[s]});
  }
  return all;
}

std::optional<Contrast> StudyGrades::label_contrast(const std::string& first, const std::string& second,
                                                    judge::Label label) const {
  const std::vector<std::int64_t> seeds = shared_seeds(first, second);
  if (seeds.empty() || !labels_.contains(first) || !labels_.contains(second)) return std::nullopt;
  const auto pooled_labels = [&](const std::string& name) -> std::optional<Suites> {
    Suites all;
    for (std::size_t s = 0; s < suites_.size(); ++s) {
      grade::Correctness suite{std::ssize(problems_[s]), 0, {}};
      const std::int64_t own = graded_.at(name).begin()->second[s].samples;
      suite.samples = own * std::ssize(seeds);
      for (std::int64_t p = 0; p < suite.problems; ++p) {
        for (const std::int64_t seed : seeds) {
          if (!labels_.at(name).contains(seed)) return std::nullopt;
          for (std::int64_t i = 0; i < own; ++i)
            suite.correct_PS.push_back(labels_.at(name).at(seed)[s][static_cast<std::size_t>(p * own + i)] ==
                                       label);
        }
      }
      all.push_back(std::move(suite));
    }
    return all;
  };
  const std::optional<Suites> a = pooled_labels(first), b = pooled_labels(second);
  if (!a || !b) return std::nullopt;
  return Contrast{grade::paired_contrast(*a, *b, grade::Bootstrap{}), seeds.size()};
}

std::optional<grade::Transitions> StudyGrades::transitions(const std::string& first,
                                                           const std::string& second) const {
  const std::vector<std::int64_t> seeds = shared_seeds(first, second);
  if (seeds.empty()) return std::nullopt;
  const Suites a = pooled(first, seeds, {}), b = pooled(second, seeds, {});
  grade::Transitions sum;
  for (std::size_t s = 0; s < a.size(); ++s) {
    const grade::Transitions one = grade::transitions(a[s], b[s]);
    sum.both += one.both;
    sum.a_only += one.a_only;
    sum.b_only += one.b_only;
    sum.neither += one.neither;
  }
  return sum;
}

}  // namespace routeopd::study
