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

// An id comes from a file: in a table it must stay one cell of one line.
std::string one_line(std::string text) {
  std::replace_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return text;
}

Cells titles(const Comparison& comparison) {
  return {"suite",
          "problems",
          "samples",
          "A",
          "B",
          "B-A",
          fmt::format("{:g} % interval", 100 * comparison.bootstrap.level),
          "both",
          "A only",
          "B only",
          "neither"};
}

Cells row_of(const std::string& name, const std::string& problems, const std::string& samples, double a,
             double b, const Interval& contrast, const Transitions& counts) {
  return {one_line(name),
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
    rows.push_back({one_line(change.problem), std::to_string(change.right_a), std::to_string(change.right_b),
                    fmt::format("{:+d}", change.right_b - change.right_a)});
  }
  return rows;
}

const Cells kChangeTitles{"problem", "right in A", "right in B", "change"};

std::string change_heading(const SuiteComparison& suite, std::size_t shown) {
  std::string heading = fmt::format("{}: {} of {} problems changed", one_line(suite.name),
                                    suite.changes.size(), suite.problems);
  if (shown < suite.changes.size()) heading += fmt::format(", worst {} shown", shown);
  return heading;
}

std::string how(const Comparison& comparison) {
  return fmt::format("Averages in %, B-A in points; paired bootstrap over problems, {} draws, seed {}.",
                     comparison.bootstrap.draws, comparison.bootstrap.seed);
}

std::string text_table(const Cells& columns, const std::vector<Cells>& rows) {
  std::vector<TextTable::Column> aligned;
  for (const std::string& title : columns) {
    aligned.push_back({title, aligned.empty() ? Align::kLeft : Align::kRight});
  }
  TextTable table(std::move(aligned));
  for (const Cells& row : rows) table.add(row);
  return table.text();
}

std::string markdown_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("\\|`*_<").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string markdown_table(const Cells& columns, const std::vector<Cells>& rows) {
  std::string out = "|";
  for (const std::string& title : columns) out += fmt::format(" {} |", title);
  out += "\n|";
  for (std::size_t c = 0; c < columns.size(); ++c) out += c == 0 ? "---|" : "---:|";
  out += "\n";
  for (const Cells& row : rows) {
    out += "|";
    for (const std::string& cell : row) out += fmt::format(" {} |", markdown_text(cell));
    out += "\n";
  }
  return out;
}

}  // namespace

std::string comparison_text(const Comparison& comparison, std::size_t changes) {
  std::string out = fmt::format("A: {}\nB: {}\n\n", one_line(comparison.run_a), one_line(comparison.run_b));
  out += fmt::format("{}\n{}\n", text_table(titles(comparison), rows_of(comparison)), how(comparison));
  for (const SuiteComparison& suite : comparison.suites) {
    const std::vector<Cells> rows = change_rows(suite, changes);
    out += fmt::format("\n{}\n", change_heading(suite, rows.size()));
    if (!rows.empty()) out += text_table(kChangeTitles, rows);
  }
  return out;
}

std::string comparison_markdown(const Comparison& comparison, std::size_t changes) {
  std::string out = fmt::format("A: {}  \nB: {}\n\n", markdown_text(one_line(comparison.run_a)),
                                markdown_text(one_line(comparison.run_b)));
  out += fmt::format("{}\n{}\n", markdown_table(titles(comparison), rows_of(comparison)), how(comparison));
  for (const SuiteComparison& suite : comparison.suites) {
    const std::vector<Cells> rows = change_rows(suite, changes);
    out += fmt::format("\n### {}\n", markdown_text(change_heading(suite, rows.size())));
    if (!rows.empty()) out += fmt::format("\n{}", markdown_table(kChangeTitles, rows));
  }
  return out;
}

}  // namespace routeopd::report
