//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/compare.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace routeopd::grade {
namespace {

[[noreturn]] void refuse(const EvalRun& a, const EvalRun& b, const std::string& field, const Json& in_a,
                         const Json& in_b) {
  throw UserError("{} and {} cannot be compared: {} is {} in the first and {} in the second", a.directory,
                  b.directory, field, in_a.dump(-1, ' ', false, Json::error_handler_t::replace),
                  in_b.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void check_equal(const EvalRun& a, const EvalRun& b, const std::string& field, const Json& in_a,
                 const Json& in_b) {
  if (in_a == in_b) return;
  if (in_a.is_object() && in_b.is_object()) {  // only the key that differs is worth showing
    std::set<std::string> keys;
    for (const auto& item : in_a.items()) keys.insert(item.key());
    for (const auto& item : in_b.items()) keys.insert(item.key());
    for (const std::string& key : keys) {
      const Json value_a = in_a.value(key, Json());
      const Json value_b = in_b.value(key, Json());
      if (value_a != value_b) refuse(a, b, field + "." + key, value_a, value_b);
    }
  }
  refuse(a, b, field, in_a, in_b);
}

// B's grades of one suite, in A's order of problems.
Correctness reordered(const EvalRun& a, const EvalRun& b, std::size_t s) {
  std::unordered_map<std::string, std::int64_t> row_of;
  const std::vector<std::string>& problems_b = b.suites[s].problems;
  for (std::size_t p = 0; p < problems_b.size(); ++p) row_of[problems_b[p]] = static_cast<std::int64_t>(p);
  const Correctness& from = b.suites[s].correctness;
  Correctness ordered{from.problems, from.samples, {}};
  for (const std::string& problem : a.suites[s].problems) {
    const auto row = row_of.find(problem);
    if (row == row_of.end()) {
      throw UserError("{} and {} cannot be compared: problem {} of suite {} is in the first alone",
                      a.directory, b.directory, problem, a.suites[s].name);
    }
    const auto first = from.correct_PS.begin() + row->second * from.samples;
    ordered.correct_PS.insert(ordered.correct_PS.end(), first, first + from.samples);
  }
  return ordered;
}

std::vector<ProblemChange> changes_of(const std::vector<std::string>& problems, const Correctness& a,
                                      const Correctness& b) {
  std::vector<ProblemChange> changes;
  for (std::size_t p = 0; p < problems.size(); ++p) {
    const auto right = [&](const Correctness& suite) {
      const auto row = suite.correct_PS.begin() + static_cast<std::int64_t>(p) * suite.samples;
      return std::count_if(row, row + suite.samples, [](std::uint8_t c) { return c != 0; });
    };
    const ProblemChange change{problems[p], right(a), right(b)};
    if (change.right_a != change.right_b) changes.push_back(change);
  }
  std::stable_sort(changes.begin(), changes.end(), [](const ProblemChange& left, const ProblemChange& right) {
    return left.right_b - left.right_a < right.right_b - right.right_a;
  });
  return changes;
}

}  // namespace

void check_protocol(const EvalRun& a, const EvalRun& b) {
  const auto names = [](const EvalRun& run) {
    std::vector<std::string> found;
    for (const EvalSuite& suite : run.suites) found.push_back(suite.name);
    return found;
  };
  check_equal(a, b, "the list of suites", names(a), names(b));
  for (const char* field : {"decoding", "seed", "template", "extractor"}) {
    check_equal(a, b, field, a.summary.value(field, Json()), b.summary.value(field, Json()));
  }
  for (std::size_t s = 0; s < a.suites.size(); ++s) {
    const std::string& name = a.suites[s].name;
    const auto hash = [&](const EvalRun& run) {
      return run.summary.value("suites", Json::object()).value(name, Json::object()).value("sha256", Json());
    };
    check_equal(a, b, "sha256 of suite " + name, hash(a), hash(b));
    const Correctness& rows_a = a.suites[s].correctness;
    const Correctness& rows_b = b.suites[s].correctness;
    check_equal(a, b, "samples of suite " + name, rows_a.samples, rows_b.samples);
    check_equal(a, b, "the number of problems of suite " + name, rows_a.problems, rows_b.problems);
  }
}

Comparison compare_runs(const EvalRun& a, const EvalRun& b, Bootstrap bootstrap) {
  check_protocol(a, b);
  Comparison comparison{a.directory, b.directory, bootstrap, {}, 0, 0, {}, {}};
  std::vector<Correctness> all_a;
  std::vector<Correctness> all_b;
  for (std::size_t s = 0; s < a.suites.size(); ++s) {
    const Correctness& suite_a = all_a.emplace_back(a.suites[s].correctness);
    const Correctness& suite_b = all_b.emplace_back(reordered(a, b, s));
    Bootstrap own = bootstrap;
    own.first_suite += static_cast<std::uint32_t>(s);
    SuiteComparison row{a.suites[s].name,
                        suite_a.problems,
                        suite_a.samples,
                        average(suite_a),
                        average(suite_b),
                        paired_contrast({&suite_a, 1}, {&suite_b, 1}, own),
                        transitions(suite_a, suite_b),
                        changes_of(a.suites[s].problems, suite_a, suite_b)};
    const auto count = static_cast<double>(a.suites.size());
    comparison.average_a += row.average_a / count;
    comparison.average_b += row.average_b / count;
    comparison.transitions.both += row.transitions.both;
    comparison.transitions.a_only += row.transitions.a_only;
    comparison.transitions.b_only += row.transitions.b_only;
    comparison.transitions.neither += row.transitions.neither;
    comparison.suites.push_back(std::move(row));
  }
  comparison.contrast = paired_contrast(all_a, all_b, bootstrap);
  return comparison;
}

}  // namespace routeopd::grade
