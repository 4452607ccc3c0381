// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/contamination.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <vector>

#include "routeopd/base/display.h"
#include "routeopd/table/text_table.h"
#include "routeopd/table/visible_text.h"

namespace routeopd::report {
namespace {

using decontamination::DecontaminateOptions;
using decontamination::Decontamination;
using Cells = std::vector<std::string>;

std::string file_name(const std::string& path) {
  return table::visible(std::filesystem::path(path).filename().string());
}

Cells titles(const DecontaminateOptions& options) {
  Cells cells = {"test file", "problems", "equal", "normalised"};
  for (const decontamination::Measure& measure : options.contamination.measures) {
    cells.push_back(fmt::format("{} {}, any", measure.n,
                                measure.unit == decontamination::Unit::kWord ? "words" : "characters"));
    cells.push_back(fmt::format("≥ {:g} %", 100 * options.contamination.coverage));
  }
  cells.emplace_back("rows");
  return cells;
}

std::vector<Cells> rows_of(const Decontamination& result) {
  std::vector<Cells> rows;
  for (const decontamination::TestCounts& test : result.tests) {
    Cells cells = {file_name(test.file), grouped(test.problems), grouped(test.raw), grouped(test.normalised)};
    for (const decontamination::MeasureCounts& counts : test.measures) {
      cells.push_back(grouped(counts.any));
      cells.push_back(grouped(counts.covered));
    }
    cells.push_back(grouped(test.rows));
    rows.push_back(std::move(cells));
  }
  return rows;
}

std::string training_line(const Decontamination& result) {
  return fmt::format(
      "{} rows, {} unique, {} unique normalised; {} groups with differing answers, {} of them raw",
      grouped(result.rows), grouped(result.unique_raw), grouped(result.unique_normalised),
      grouped(result.conflicts_normalised), grouped(result.conflicts_raw));
}

constexpr std::array<const char*, 2> kLegend = {
    "Test problems that equal a training row, raw and normalised; that share an n-gram with one; of which "
    "one row has",
    "that share of the n-grams. Rows: training rows that are equal or reach the share."};

std::string outcome(const Decontamination& result, const DecontaminateOptions& options) {
  std::string text =
      fmt::format("{}: {} contaminated, {} with differing answers, {} duplicates; {} rows stay",
                  options.out.empty() ? "To be removed" : "Removed", grouped(result.contaminated),
                  grouped(result.conflicting), grouped(result.duplicates), grouped(result.kept));
  if (!options.out.empty()) text += fmt::format(", in {}", table::visible(options.out));
  return text;
}

}  // namespace

std::string decontamination_report(const Decontamination& result, const DecontaminateOptions& options,
                                   table::TableFormat format) {
  std::string out = fmt::format(
      "{}\n{}\n", table::note(fmt::format("{}: {}", file_name(result.train), training_line(result)), format),
      table::table_of(titles(options), rows_of(result), format));
  for (const char* line : kLegend) out += table::note(line, format);
  return fmt::format("{}\n{}", out, table::note(outcome(result, options), format));
}

}  // namespace routeopd::report
