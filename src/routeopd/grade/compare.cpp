// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/compare.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>

#include "routeopd/grade/answer.h"

namespace routeopd::grade {
namespace {

std::string one_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

[[noreturn]] void refuse(const EvalRun& a, const EvalRun& b, const std::string& field, const Json& in_a,
                         const Json& in_b) {
  throw UserError("{} and {} cannot be compared: {} is {} in the first and {} in the second", a.directory,
                  b.directory, field, one_line(in_a), one_line(in_b));
}

void check_equal(const EvalRun& a, const EvalRun& b, const std::string& field, const Json& in_a,
                 const Json& in_b) {
  if (in_a == in_b) return;
  if (in_a.is_object() && in_b.is_object()) {  // show only the key that differs
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

// Grades by different rules are no contrast between models; the responses are there to be graded again.
void check_extractor(const EvalRun& a, const EvalRun& b) {
  const Json by_a = a.summary.value("extractor", Json());
  const Json by_b = b.summary.value("extractor", Json());
  if (by_a == by_b) return;
  const std::string again = by_a == kExtractor   ? b.directory
                            : by_b == kExtractor ? a.directory
                                                 : fmt::format("{} and {}", a.directory, b.directory);
  throw UserError(
      "{} and {} cannot be compared: extractor is {} in the first and {} in the second; run the "
      "`routeopd eval` command of {} again, which samples nothing and grades the responses by {}",
      a.directory, b.directory, one_line(by_a), one_line(by_b), again, kExtractor);
}

Json hash_of(const EvalRun& run, const std::string& suite) {
  return run.summary.value("suites", Json::object()).value(suite, Json::object()).value("sha256", Json());
}

// B's grades of one suite, in the order of A's problems. Both have as many.
Correctness reordered(const EvalRun& a, const EvalSuite& suite_a, const EvalRun& b,
                      const EvalSuite& suite_b) {
  std::unordered_map<std::string, std::int64_t> row_of;
  for (std::size_t p = 0; p < suite_b.problems.size(); ++p)
    row_of[suite_b.problems[p]] = static_cast<std::int64_t>(p);
  const Correctness& from = suite_b.correctness;
  Correctness ordered{from.problems, from.samples, {}};
  for (const std::string& problem : suite_a.problems) {
    const auto row = row_of.find(problem);
    if (row == row_of.end()) {
      throw UserError("{} and {} cannot be compared: problem {} of suite {} is in the first alone",
                      a.directory, b.directory, problem, suite_a.name);
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

void add(Transitions& sum, const Transitions& counts) {
  sum.both += counts.both;
  sum.a_only += counts.a_only;
  sum.b_only += counts.b_only;
  sum.neither += counts.neither;
}

// Suites of several pairs by name, each with the first run
// that has it, whose order of problems holds for all.
struct SharedSuite {
  const EvalRun* run = nullptr;
  const EvalSuite* suite = nullptr;
  std::uint32_t number = 0;
};

std::map<std::string, SharedSuite> shared_suites(std::span<const std::pair<EvalRun, EvalRun>> pairs) {
  std::map<std::string, SharedSuite> shared;
  for (const auto& [a, b] : pairs) {
    for (const EvalSuite& suite : a.suites) {
      const auto [found, fresh] = shared.try_emplace(suite.name, SharedSuite{&a, &suite});
      if (fresh) continue;
      const EvalRun& first = *found->second.run;
      check_equal(first, a, "sha256 of suite " + suite.name, hash_of(first, suite.name),
                  hash_of(a, suite.name));
      check_equal(first, a, "the number of problems of suite " + suite.name,
                  found->second.suite->correctness.problems, suite.correctness.problems);
    }
  }
  std::uint32_t number = 0;
  for (auto& entry : shared) entry.second.number = number++;
  return shared;
}

}  // namespace

void check_protocol(const EvalRun& a, const EvalRun& b) {
  const auto names = [](const EvalRun& run) {
    std::vector<std::string> found;
    for (const EvalSuite& suite : run.suites) found.push_back(suite.name);
    return found;
  };
  check_equal(a, b, "the list of suites", names(a), names(b));
  for (const char* field : {"decoding", "seed", "template"}) {
    check_equal(a, b, field, a.summary.value(field, Json()), b.summary.value(field, Json()));
  }
  check_extractor(a, b);
  for (std::size_t s = 0; s < a.suites.size(); ++s) {
    const std::string& name = a.suites[s].name;
    check_equal(a, b, "sha256 of suite " + name, hash_of(a, name), hash_of(b, name));
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
    const Correctness& suite_b = all_b.emplace_back(reordered(a, a.suites[s], b, b.suites[s]));
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
    add(comparison.transitions, row.transitions);
    comparison.suites.push_back(std::move(row));
  }
  comparison.contrast = paired_contrast(all_a, all_b, bootstrap);
  return comparison;
}

MacroComparison compare_pairs(std::span<const std::pair<EvalRun, EvalRun>> pairs,
                              const Bootstrap& bootstrap) {
  MacroComparison macro{.pairs = {}, .bootstrap = bootstrap, .suites = {}, .average = {}};
  for (const auto& [a, b] : pairs) macro.pairs.push_back(compare_runs(a, b, bootstrap));
  const std::map<std::string, SharedSuite> shared = shared_suites(pairs);
  std::deque<Correctness> ordered;  // what the terms point to
  std::vector<WeightedContrast> terms;
  std::map<std::string, std::vector<WeightedContrast>> terms_of;
  std::map<std::string, MacroRow> rows;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto& [a, b] = pairs[i];
    for (std::size_t s = 0; s < a.suites.size(); ++s) {
      const SharedSuite& first = shared.at(a.suites[s].name);
      const SuiteComparison& compared = macro.pairs[i].suites[s];
      const Correctness& rows_a = ordered.emplace_back(reordered(*first.run, *first.suite, a, a.suites[s]));
      const Correctness& rows_b = ordered.emplace_back(reordered(*first.run, *first.suite, b, b.suites[s]));
      terms.push_back({&rows_a, &rows_b, first.number, 1 / static_cast<double>(a.suites.size())});
      terms_of[compared.name].push_back({&rows_a, &rows_b, first.number, 1});
      MacroRow& row = rows[compared.name];
      row.name = compared.name;
      ++row.pairs;
      row.average_a += compared.average_a;
      row.average_b += compared.average_b;
      add(row.transitions, compared.transitions);
    }
    macro.average.average_a += macro.pairs[i].average_a / static_cast<double>(pairs.size());
    macro.average.average_b += macro.pairs[i].average_b / static_cast<double>(pairs.size());
    add(macro.average.transitions, macro.pairs[i].transitions);
  }
  for (auto& [name, row] : rows) {
    row.average_a /= static_cast<double>(row.pairs);
    row.average_b /= static_cast<double>(row.pairs);
    row.contrast = weighted_contrast(terms_of[name], bootstrap);
    macro.suites.push_back(row);
  }
  macro.average.name = "average";
  macro.average.pairs = std::ssize(pairs);
  macro.average.contrast = weighted_contrast(terms, bootstrap);
  return macro;
}

}  // namespace routeopd::grade
