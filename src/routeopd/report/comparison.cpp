// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "routeopd/table/cells.h"
#include "routeopd/table/text_table.h"

namespace routeopd::report {
namespace {

using grade::Comparison;
using grade::Interval;
using grade::SuiteComparison;
using grade::Transitions;
using Cells = std::vector<std::string>;

// A row is what it is of, then the figures of a contrast.
Cells titles(Cells first, const grade::Bootstrap& bootstrap) {
  for (const std::string& title : {std::string("A"), std::string("B"), std::string("B-A"),
                                   fmt::format("{:g} % interval", 100 * bootstrap.level), std::string("both"),
                                   std::string("A only"), std::string("B only"), std::string("neither")})
    first.push_back(title);
  return first;
}

Cells row_of(Cells first, double a, double b, const Interval& contrast, const Transitions& counts) {
  first.push_back(table::percent(a));
  first.push_back(table::percent(b));
  first.push_back(table::points(contrast.mean));
  first.push_back(fmt::format("[{}, {}]", table::points(contrast.low), table::points(contrast.high)));
  for (const std::int64_t count : {counts.both, counts.a_only, counts.b_only, counts.neither})
    first.push_back(std::to_string(count));
  return first;
}

std::vector<Cells> rows_of(const Comparison& comparison) {
  std::vector<Cells> rows;
  for (const SuiteComparison& suite : comparison.suites) {
    rows.push_back(row_of({suite.name, std::to_string(suite.problems), std::to_string(suite.samples)},
                          suite.average_a, suite.average_b, suite.contrast, suite.transitions));
  }
  if (comparison.suites.size() > 1) {  // the average over one suite says nothing new
    rows.push_back(row_of({"average", "", ""}, comparison.average_a, comparison.average_b,
                          comparison.contrast, comparison.transitions));
  }
  return rows;
}

std::vector<Cells> change_rows(const SuiteComparison& suite, std::size_t limit) {
  std::vector<Cells> rows;
  for (std::size_t i = 0; i < std::min(limit, suite.changes.size()); ++i) {
    const grade::ProblemChange& change = suite.changes[i];
    rows.push_back({change.problem, std::to_string(change.right_a), std::to_string(change.right_b),
                    fmt::format("{:+d}", change.right_b - change.right_a)});
  }
  return rows;
}

const Cells kChangeTitles{"problem", "right in A", "right in B", "change"};

std::string change_heading(const SuiteComparison& suite, std::size_t shown) {
  std::string heading =
      fmt::format("{}: {} of {} problems changed", suite.name, suite.changes.size(), suite.problems);
  if (shown < suite.changes.size()) heading += fmt::format(", worst {} shown", shown);
  return heading;
}

std::string how(const grade::Bootstrap& bootstrap) {
  return fmt::format("Averages in %, B-A in points; paired bootstrap over problems, {} draws, seed {}.",
                     bootstrap.draws, bootstrap.seed);
}

}  // namespace

std::string comparison_report(const Comparison& comparison, table::TableFormat format, std::size_t changes) {
  std::string out = table::note("A: " + comparison.run_a, format);
  if (format == table::TableFormat::kMarkdown) out.insert(out.size() - 1, "  ");  // a line break
  out += fmt::format("{}\n{}\n{}", table::note("B: " + comparison.run_b, format),
                     table::table_of(titles({"suite", "problems", "samples"}, comparison.bootstrap),
                                     rows_of(comparison), format),
                     table::note(how(comparison.bootstrap), format));
  for (const SuiteComparison& suite : comparison.suites) {
    const std::vector<Cells> rows = change_rows(suite, changes);
    out += fmt::format("\n{}", table::heading(change_heading(suite, rows.size()), format));
    if (!rows.empty()) out += table::table_of(kChangeTitles, rows, format);
  }
  return out;
}

std::string macro_report(const grade::MacroComparison& macro, table::TableFormat format) {
  std::vector<Cells> pairs, means;
  for (const Comparison& pair : macro.pairs) {
    pairs.push_back(row_of({fmt::format("{} → {}", pair.run_a, pair.run_b)}, pair.average_a, pair.average_b,
                           pair.contrast, pair.transitions));
  }
  const auto add_mean = [&](const std::string& name, const grade::MacroRow& row) {
    means.push_back(row_of({name, std::to_string(row.pairs)}, row.average_a, row.average_b, row.contrast,
                           row.transitions));
  };
  for (const grade::MacroRow& row : macro.suites) add_mean(row.name, row);
  add_mean("macro average", macro.average);
  return fmt::format("{}\n{}\n{}",
                     table::table_of(titles({"A → B, average over suites"}, macro.bootstrap), pairs, format),
                     table::table_of(titles({"mean over pairs", "pairs"}, macro.bootstrap), means, format),
                     table::note(how(macro.bootstrap), format));
}

}  // namespace routeopd::report
