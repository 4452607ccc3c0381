// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/judgement.h"

#include <fmt/format.h>

#include <algorithm>

#include "routeopd/table/cells.h"
#include "routeopd/table/visible_text.h"

namespace routeopd::report {
namespace {

using judge::JudgeInput;
using judge::JudgeTally;
using judge::Label;
using judge::ScopeTally;
using Cells = std::vector<std::string>;

struct LabelTable {
  std::string title;
  Cells columns;  // words in the first, numbers in the others
  std::vector<Cells> rows;
};

std::string shown_name(Label label) {
  static constexpr judge::PerLabel<const char*> kNames{"correct",        "reasoning", "arithmetic",
                                                       "premature stop", "format",    "unjudged"};
  return kNames[judge::index_of(label)];
}

// A directory's name is a user's: nothing in it may act on a terminal or break a row.
std::string run_name(const JudgeInput& input, std::size_t run) {
  return table::visible(input.runs[run].name);
}

std::string titled(const char* what, const ScopeTally& scope) {
  return fmt::format("{}, {}", what, scope.suite.empty() ? "all suites" : table::visible(scope.suite));
}

LabelTable distribution(const JudgeInput& input, const ScopeTally& scope) {
  LabelTable table{titled("Labels", scope), {"run"}, {}};
  for (const Label label : judge::kAllLabels) table.columns.push_back(shown_name(label));
  table.columns.emplace_back("total");
  for (std::size_t r = 0; r < scope.runs.size(); ++r) {
    Cells& row = table.rows.emplace_back(Cells{run_name(input, r)});
    for (const std::int64_t count : scope.runs[r].counts) row.push_back(std::to_string(count));
    row.push_back(std::to_string(scope.runs[r].total));
  }
  return table;
}

LabelTable transitions(const JudgeInput& input, const ScopeTally& scope) {
  LabelTable table{titled("Transitions", scope), {"transition"}, {}};
  for (const judge::TransitionTally& pair : scope.transitions)
    table.columns.push_back(fmt::format("{} → {}", run_name(input, 0), run_name(input, pair.to_run)));
  for (const bool into : {true, false}) {
    for (const Label label : judge::kAllLabels) {
      if (label == Label::kCorrect) continue;
      Cells row{fmt::format("{} → {}", shown_name(into ? label : Label::kCorrect),
                            shown_name(into ? Label::kCorrect : label))};
      std::int64_t sum = 0;
      for (const judge::TransitionTally& pair : scope.transitions) {
        const std::int64_t count = (into ? pair.into_correct : pair.out_of_correct)[judge::index_of(label)];
        sum += count;
        row.push_back(std::to_string(count));
      }
      if (label != Label::kUnjudged || sum > 0) table.rows.push_back(std::move(row));
    }
  }
  return table;
}

LabelTable lengths(const JudgeInput& input, const ScopeTally& scope) {
  LabelTable table{titled("Length in tokens, and format", scope),
                   {"run", "mean", "P25", "median", "P75", "P90", "clipped %", "format valid %"},
                   {}};
  for (std::size_t r = 0; r < scope.runs.size(); ++r) {
    const judge::RunTally& run = scope.runs[r];
    Cells row{run_name(input, r)};
    for (const double value : {run.mean, run.p25, run.p50, run.p75, run.p90})
      row.push_back(fmt::format("{:.0f}", value));
    row.push_back(table::percent(run.clipped));
    row.push_back(table::percent(run.format_valid));
    table.rows.push_back(std::move(row));
  }
  return table;
}

LabelTable agreement(const JudgeTally& tally) {
  LabelTable table{"Agreement of the two passes", {"responses", "n", "agreement %", "Cohen's kappa"}, {}};
  for (const auto& [name, part] : {std::pair("all, five labels", &tally.all), {"judged", &tally.judged}}) {
    table.rows.push_back({name, std::to_string(part->n), part->share ? table::percent(*part->share) : "-",
                          part->kappa ? fmt::format("{:.3f}", *part->kappa) : "-"});
  }
  return table;
}

}  // namespace

std::string judgement_tables(const JudgeInput& input, const JudgeTally& tally, table::TableFormat format) {
  std::string out;
  const auto add = [&](const LabelTable& table) {
    if (!out.empty()) out += '\n';
    out += table::heading(table.title, format) + table::table_of(table.columns, table.rows, format);
  };
  for (const ScopeTally& scope : tally.scopes) {
    add(distribution(input, scope));
    if (!scope.transitions.empty()) add(transitions(input, scope));
    add(lengths(input, scope));
  }
  add(agreement(tally));
  return fmt::format(
      "{}\n{}", out,
      table::note(fmt::format("{} adjudicated, {} unjudged.", tally.adjudicated, tally.unjudged), format));
}

}  // namespace routeopd::report
