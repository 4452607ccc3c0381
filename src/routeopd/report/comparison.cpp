//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "routeopd/report/text_table.h"

namespace routeopd::report {
namespace {

using grade::Comparison;
using grade::Interval;
using grade::SuiteComparison;
using grade::Transitions;
using Cells = std::vector<std::string>;

std::string percent(double fraction) {
  return fmt::format("{:.2f}", 100 * fraction);
}

// A change: with its sign, and zero without one, also where -0.001 is rounded to it.
std::string points(double fraction) {
  const std::string text = fmt::format("{:+.2f}", 100 * fraction);
  return text == "+0.00" || text == "-0.00" ? "0.00" : text;
}

Cells titles(const grade::Bootstrap& bootstrap) {
  return {"suite",
          "problems",
          "samples",
          "A",
          "B",
          "B-A",
          fmt::format("{:g} % interval", 100 * bootstrap.level),
          "both",
          "A only",
          "B only",
          "neither"};
}

Cells row_of(const std::string& name, const std::string& problems, const std::string& samples, double a,
             double b, const Interval& contrast, const Transitions& counts) {
  return {name,
          problems,
          samples,
          percent(a),
          percent(b),
          points(contrast.mean),
          fmt::format("[{}, {}]", points(contrast.low), points(contrast.high)),
          std::to_string(counts.both),
          std::to_string(counts.a_only),
          std::to_string(counts.b_only),
          std::to_string(counts.neither)};
}

std::vector<Cells> rows_of(const Comparison& comparison) {
  std::vector<Cells> rows;
  for (const SuiteComparison& suite : comparison.suites) {
    rows.push_back(row_of(suite.name, std::to_string(suite.problems), std::to_string(suite.samples),
                          suite.average_a, suite.average_b, suite.contrast, suite.transitions));
  }
  if (comparison.suites.size() > 1) {  // the average over one suite says nothing new
    rows.push_back(row_of("average", "", "", comparison.average_a, comparison.average_b, comparison.contrast,
                          comparison.transitions));
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

std::string table_of(const Cells& columns, const std::vector<Cells>& rows, TableFormat format) {
  std::vector<TextTable::Column> aligned;
  for (const std::string& title : columns) {
    aligned.push_back({title, aligned.empty() ? Align::kLeft : Align::kRight});
  }
  TextTable table(std::move(aligned));
  for (const Cells& row : rows) table.add(row);
  return table.rendered(format);
}

}  // namespace

std::string comparison_report(const Comparison& comparison, TableFormat format, std::size_t changes) {
  std::string out = note("A: " + comparison.run_a, format);
  if (format == TableFormat::kMarkdown) out.insert(out.size() - 1, "  ");  // a line break
  out += fmt::format("{}\n{}\n{}", note("B: " + comparison.run_b, format),
                     table_of(titles(comparison.bootstrap), rows_of(comparison), format),
                     note(how(comparison.bootstrap), format));
  for (const SuiteComparison& suite : comparison.suites) {
    const std::vector<Cells> rows = change_rows(suite, changes);
    out += fmt::format("\n{}", heading(change_heading(suite, rows.size()), format));
    if (!rows.empty()) out += table_of(kChangeTitles, rows, format);
  }
  return out;
}

std::string macro_report(const grade::MacroComparison& macro, TableFormat format) {
  const auto counted = [](const std::string& name, const std::string& pairs, double a, double b,
                          const Interval& contrast, const Transitions& counts) {
    Cells row = row_of(name, pairs, "", a, b, contrast, counts);
    row.erase(row.begin() + 2);
    return row;
  };
  const auto columns = [&](const std::string& first) {
    Cells titled = titles(macro.bootstrap);
    titled[0] = first;
    titled[1] = "pairs";
    titled.erase(titled.begin() + 2);
    return titled;
  };
  std::vector<Cells> rows;
  for (const Comparison& pair : macro.pairs) {
    rows.push_back(counted(fmt::format("{} → {}", pair.run_a, pair.run_b), "", pair.average_a, pair.average_b,
                           pair.contrast, pair.transitions));
  }
  Cells titled = columns("A → B, average over suites");
  titled.erase(titled.begin() + 1);
  for (Cells& row : rows) row.erase(row.begin() + 1);
  std::string out = fmt::format("{}\n", table_of(titled, rows, format));
  rows.clear();
  for (const grade::MacroRow& row : macro.suites)
    rows.push_back(counted(row.name, std::to_string(row.pairs), row.average_a, row.average_b, row.contrast,
                           row.transitions));
  const grade::MacroRow& mean = macro.average;
  rows.push_back(counted("macro average", std::to_string(mean.pairs), mean.average_a, mean.average_b,
                         mean.contrast, mean.transitions));
  out += fmt::format("{}\n{}", table_of(columns("mean over pairs"), rows, format),
                     note(how(macro.bootstrap), format));
  return out;
}

}  // namespace routeopd::report
