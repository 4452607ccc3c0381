// The paper's own numbers, for standing beside a study's: every table that one of ours answers to, and the
// few numbers that stand in its text alone. Units are the paper's: percent, points, tokens, seconds.
//
// Rows are called by the variants of a study ("fixed_mid" is the paper's "Shared, fixed-mid" and its
// "Teacher-deficit coupling"), so that a table of ours finds its row; `words` are the paper's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace routeopd::study {

struct PaperRow {
  std::string name;            // ours: a variant, a bin, a quartile
  std::string words;           // the paper's: the row's first cell, or its first two with " & " between
  std::vector<double> values;  // NaN where the paper has a dash
};

struct PaperTable {
  std::string id;     // ours: "destination"
  std::string label;  // the paper's: "tab:app-causal-ablations"; of text, the words that begin the sentence
  std::vector<std::string> columns;  // ours, one per value
  std::vector<PaperRow> rows;
  bool text = false;  // the numbers stand in a paragraph and not in a table
};

// All of them.
const std::vector<PaperTable>& paper_tables();

const PaperTable& paper_table(std::string_view id);

// None where the paper has no such row, or a dash.
std::optional<double> paper_number(std::string_view id, std::string_view row, std::string_view column);

// The four pairs of the main table, "main-1" … "main-4", as "TEACHER → STUDENT". Other tables are of the
// second pair.
inline constexpr int kPaperSettings = 4;
std::string paper_setting(int number);

}  // namespace routeopd::study
