// SPDX-License-Identifier: Apache-2.0
#include "routeopd/decontamination/contamination.h"

#include <algorithm>
#include <limits>

#include "routeopd/base/error.h"

namespace routeopd::decontamination {

std::string Measure::name() const {
  return fmt::format("{}_{}", unit == Unit::kWord ? "words" : "characters", n);
}

RowText::RowText(const std::string& text) : normal(normal_text(text)), raw(digest_of(text)) {
  normalised = normal.text.empty() ? raw : digest_of(normal.text);
}

Contamination::Contamination(ContaminationOptions options) : options_(std::move(options)) {
  for (const Measure& measure : options_.measures) indexes_.emplace_back(measure.n);
}

void Contamination::add_test_file(const std::string& path) {
  ProblemLines lines(path);
  while (std::optional<ProblemLine> line = lines.next()) {
    if (problems_.size() == std::numeric_limits<std::uint32_t>::max())
      throw UserError("{}: more than {} test problems; check fewer at a time", path, problems_.size());
    RowText row(line->text);
    const auto number = static_cast<std::uint32_t>(problems_.size());
    raw_[row.raw].push_back(number);
    normalised_[row.normalised].push_back(number);
    TestProblem& problem = problems_.emplace_back();
    problem.id = std::move(line->id);
    problem.text = std::move(line->text);
    problem.file = files_.size();
    problem.coverage.assign(options_.measures.size(), 0);
    const Units words = words_of(row.normal), characters = characters_of(row.normal);
    problem.normal = std::move(row.normal.text);
    for (std::size_t m = 0; m < indexes_.size(); ++m)
      indexes_[m].add(problem.normal, options_.measures[m].unit == Unit::kWord ? words : characters);
    place_of_.push_back(-1);
  }
  if (lines.count() == 0) throw UserError("{}: no problems; expected one JSON object per line", path);
  files_.push_back(path);
}

Hit& Contamination::found(std::uint32_t problem) {
  if (place_of_[problem] < 0) {
    place_of_[problem] = std::ssize(touched_);
    touched_.push_back(problem);
    if (found_.size() < touched_.size()) found_.emplace_back();
    Hit& fresh = found_[touched_.size() - 1];
    fresh.problem = &problems_[problem];
    fresh.raw = fresh.normalised = false;
    fresh.coverage.assign(options_.measures.size(), 0);
  }
  return found_[static_cast<std::size_t>(place_of_[problem])];
}

std::span<const Hit> Contamination::check(const RowText& row) {
  if (const auto equal = raw_.find(row.raw); equal != raw_.end()) {
    for (const std::uint32_t problem : equal->second) problems_[problem].raw = found(problem).raw = true;
  }
  if (const auto equal = normalised_.find(row.normalised); equal != normalised_.end()) {
    for (const std::uint32_t problem : equal->second)
      problems_[problem].normalised = found(problem).normalised = true;
  }
  const Units words = words_of(row.normal), characters = characters_of(row.normal);
  for (std::size_t m = 0; m < indexes_.size(); ++m) {
    const Units& units = options_.measures[m].unit == Unit::kWord ? words : characters;
    for (const GramIndex::Shared& shared : indexes_[m].shared_with(row.normal.text, units)) {
      const double coverage =
          static_cast<double>(shared.grams) / static_cast<double>(indexes_[m].grams_of(shared.problem));
      found(shared.problem).coverage[m] = coverage;
      double& largest = problems_[shared.problem].coverage[m];
      largest = std::max(largest, coverage);
    }
  }
  if (!std::is_sorted(touched_.begin(), touched_.end())) std::sort(touched_.begin(), touched_.end());
  std::size_t hits = 0;
  for (const std::uint32_t problem : touched_) {
    const Hit& candidate = found_[static_cast<std::size_t>(place_of_[problem])];
    if (candidate.normalised || first_covered(candidate)) {
      if (hits == hits_.size()) hits_.emplace_back();
      hits_[hits++] = candidate;
    }
    place_of_[problem] = -1;
  }
  touched_.clear();
  return {hits_.data(), hits};
}

std::optional<std::size_t> Contamination::first_covered(const Hit& hit) const {
  for (std::size_t m = 0; m < hit.coverage.size(); ++m) {
    if (hit.coverage[m] >= options_.coverage) return m;
  }
  return std::nullopt;
}

std::string Contamination::kind_of(const Hit& hit) const {
  if (hit.raw) return "raw";
  if (hit.normalised) return "normalised";
  const std::optional<std::size_t> measure = first_covered(hit);
  ROUTEOPD_INVARIANT(measure.has_value());
  return options_.measures[*measure].name();
}

double Contamination::coverage_of(const Hit& hit) const {
  if (hit.normalised) return 1;
  const std::optional<std::size_t> measure = first_covered(hit);
  ROUTEOPD_INVARIANT(measure.has_value());
  return hit.coverage[*measure];
}

}  // namespace routeopd::decontamination
