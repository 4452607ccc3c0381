//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/judgement.h"

#include <fmt/format.h>

#include <algorithm>

#include "routeopd/report/text_table.h"
#include "routeopd/report/visible_text.h"

namespace routeopd::report {
namespace {

using grade::JudgeInput;
using grade::JudgeTally;
using grade::Label;
using grade::ScopeTally;
using Cells = std::vector<std::string>;

struct Table {
  std::string title;
  Cells columns;  // words in the first, numbers in the others
  std::vector<Cells> rows;
};

std::string shown_name(Label label) {
  static constexpr grade::PerLabel<const char*> kNames{"correct",        "reasoning", "arithmetic",
                                                       "premature stop", "format",    "unjudged"};
  return kNames[grade::index_of(label)];
}

std::string percent(double fraction) {
  return fmt::format("{:.2f}", 100 * fraction);
}

// A directory's name is a user's: nothing in it may act on a terminal or break a row.
std::string run_name(const JudgeInput& input, std::size_t run) {
  return visible(input.runs[run].name);
}

std::string titled(const char* what, const ScopeTally& scope) {
  return fmt::format("{}, {}", what, scope.suite.empty() ? "all suites" : visible(scope.suite));
}

Table distribution(const JudgeInput& input, const ScopeTally& scope) {
  Table table{titled("Labels", scope), {"run"}, {}};
  for (const Label label : grade::kAllLabels) table.columns.push_back(shown_name(label));
  table.columns.emplace_back("total");
  for (std::size_t r = 0; r < scope.runs.size(); ++r) {
    Cells& row = table.rows.emplace_back(Cells{run_name(input, r)});
    for (const std::int64_t count : scope.runs[r].counts) row.push_back(std::to_string(count));
    row.push_back(std::to_string(scope.runs[r].total));
  }
  return table;
}

Table transitions(const JudgeInput& input, const ScopeTally& scope) {
  Table table{titled("Transitions", scope), {"transition"}, {}};
  for (const grade::TransitionTally& pair : scope.transitions)
    table.columns.push_back(fmt::format("{} → {}", run_name(input, 0), run_name(input, pair.to_run)));
  for (const bool into : {true, false}) {
    for (const Label label : grade::kAllLabels) {
      if (label == Label::kCorrect) continue;
      Cells row{fmt::format("{} → {}", shown_name(into ? label : Label::kCorrect),
                            shown_name(into ? Label::kCorrect : label))};
      std::int64_t sum = 0;
      for (const grade::TransitionTally& pair : scope.transitions) {
        const std::int64_t count = (into ? pair.into_correct : pair.out_of_correct)[grade::index_of(label)];
        sum += count;
        row.push_back(std::to_string(count));
      }
      if (label != Label::kUnjudged || sum > 0) table.rows.push_back(std::move(row));
    }
  }
  return table;
}

Table lengths(const JudgeInput& input, const ScopeTally& scope) {
  Table table{titled("Length in tokens, and format", scope),
              {"run", "mean", "P25", "median", "P75", "P90", "clipped %", "format valid %"},
              {}};
  for (std::size_t r = 0; r < scope.runs.size(); ++r) {
    const grade::RunTally& run = scope.runs[r];
    Cells row{run_name(input, r)};
    for (const double value : {run.mean, run.p25, run.p50, run.p75, run.p90})
      row.push_back(fmt::format("{:.0f}", value));
    row.push_back(percent(run.clipped));
    row.push_back(percent(run.format_valid));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table agreement(const JudgeTally& tally) {
  Table table{"Agreement of the two passes", {"responses", "n", "agreement %", "Cohen's kappa"}, {}};
  for (const auto& [name, part] : {std::pair("all, five labels", &tally.all), {"judged", &tally.judged}}) {
    table.rows.push_back({name, std::to_string(part->n), part->share ? percent(*part->share) : "-",
                          part->kappa ? fmt::format("{:.3f}", *part->kappa) : "-"});
  }
  return table;
}

std::string escaped(const std::string& text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// In one pass: the escape of a backslash has braces itself.
std::string latex_text(const std::string& text) {
  static constexpr std::string_view kArrow = "→";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      out += "\\textbackslash{}";
    } else if (text.compare(i, kArrow.size(), kArrow) == 0) {
      out += "$\\to$";
      i += kArrow.size() - 1;
    } else if (c == '~' || c == '^') {
      out += fmt::format("\\{}{{}}", c);
    } else {
      out += escaped(std::string(1, c), "&%$#_{}");
    }
  }
  return out;
}

std::string text_of(const Table& table) {
  std::vector<TextTable::Column> columns;
  for (const std::string& title : table.columns)
    columns.push_back({title, columns.empty() ? Align::kLeft : Align::kRight});
  TextTable text(std::move(columns));
  for (const Cells& row : table.rows) text.add(row);
  return fmt::format("{}\n{}", table.title, text.text());
}

std::string markdown_of(const Table& table) {
  const auto line = [](const Cells& cells) {
    std::string out = "|";
    for (const std::string& cell : cells) out += fmt::format(" {} |", escaped(cell, "\\|`*_<"));
    return out + "\n";
  };
  std::string out = fmt::format("### {}\n\n{}|---|", escaped(table.title, "\\|`*_<"), line(table.columns));
  for (std::size_t c = 1; c < table.columns.size(); ++c) out += "---:|";
  out += "\n";
  for (const Cells& row : table.rows) out += line(row);
  return out;
}

std::string latex_of(const Table& table) {
  const auto line = [](const Cells& cells) {
    std::string out;
    for (const std::string& cell : cells)
      out += fmt::format("{}{}", out.empty() ? "" : " & ", latex_text(cell));
    return out + " \\\\\n";
  };
  std::string out = fmt::format("% {}\n\\begin{{tabular}}{{l{}}}\n\\toprule\n{}\\midrule\n", table.title,
                                std::string(table.columns.size() - 1, 'r'), line(table.columns));
  for (const Cells& row : table.rows) out += line(row);
  return out + "\\bottomrule\n\\end{tabular}\n";
}

std::string rendered(const Table& table, TableStyle style) {
  switch (style) {
    case TableStyle::kMarkdown:
      return markdown_of(table);
    case TableStyle::kLatex:
      return latex_of(table);
    default:
      return text_of(table);
  }
}

}  // namespace

std::string judgement_tables(const JudgeInput& input, const JudgeTally& tally, TableStyle style) {
  std::string out;
  const auto add = [&](const Table& table) {
    if (!out.empty()) out += '\n';
    out += rendered(table, style);
  };
  for (const ScopeTally& scope : tally.scopes) {
    add(distribution(input, scope));
    if (!scope.transitions.empty()) add(transitions(input, scope));
    add(lengths(input, scope));
  }
  add(agreement(tally));
  return out + fmt::format("\n{}{} adjudicated, {} unjudged.\n", style == TableStyle::kLatex ? "% " : "",
                           tally.adjudicated, tally.unjudged);
}

}  // namespace routeopd::report
