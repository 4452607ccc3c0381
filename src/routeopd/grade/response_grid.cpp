//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/response_grid.h"

#include <algorithm>
#include <tuple>

#include "routeopd/base/error.h"

namespace routeopd::grade {

std::int64_t ResponseGrid::add(const std::string& problem, std::int64_t sample, bool correct) {
  const auto [found, fresh] = rows_.try_emplace(problem, static_cast<std::int64_t>(problems_.size()));
  if (fresh) problems_.push_back(problem);
  entries_.push_back({found->second, sample, correct});
  return found->second;
}

Correctness ResponseGrid::correctness(std::int64_t samples, const std::string& where) const {
  if (entries_.empty()) throw UserError("{}: has no responses", where);
  std::vector<Entry> sorted = entries_;
  std::sort(sorted.begin(), sorted.end(), [](const Entry& left, const Entry& right) {
    return std::tie(left.problem, left.sample) < std::tie(right.problem, right.sample);
  });
  const auto refuse = [&](std::int64_t problem, std::int64_t sample, const char* what) {
    throw UserError("{}: problem {}, sample {} {}, expected {} samples of each problem, once each", where,
                    problems_[static_cast<std::size_t>(problem)], sample, what, samples);
  };
  const auto same = [](const Entry& left, const Entry& right) {
    return left.problem == right.problem && left.sample == right.sample;
  };
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end(), same); twice != sorted.end()) {
    refuse(twice->problem, twice->sample, "is there twice");
  }
  Correctness suite{static_cast<std::int64_t>(problems_.size()), samples, {}};
  std::int64_t problem = 0;
  std::int64_t sample = 0;  // the pair that comes next when none is missing
  for (const Entry& entry : sorted) {
    ROUTEOPD_INVARIANT(entry.sample >= 0 && entry.sample < samples);
    if (entry.problem != problem || entry.sample != sample) refuse(problem, sample, "is missing");
    suite.correct_PS.push_back(entry.correct);
    if (++sample == samples) {
      ++problem;
      sample = 0;
    }
  }
  if (problem < suite.problems) refuse(problem, sample, "is missing");
  return suite;
}

}  // namespace routeopd::grade
