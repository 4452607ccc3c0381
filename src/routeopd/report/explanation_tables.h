// The tables of an explanation, as a terminal and a page both show them: internal to explanation_*.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "routeopd/table/text_table.h"
#include "routeopd/types/explanation.h"

namespace routeopd::report {

// Cells are visible text, not yet escaped for HTML.
struct ExplanationTable {
  std::string title;
  std::vector<table::TextTable::Column> columns;
  std::vector<std::vector<std::string>> rows;
  std::string note;  // below it; may be empty
};

// What is explained: models, sizes, settings, one line each.
std::vector<std::string> heading_lines(const Explanation& explanation);

// A row for each of these tokens.
ExplanationTable token_table(const Explanation& explanation, const std::vector<std::size_t>& places);

// The state's own numbers.
ExplanationTable state_table(const Explanation& explanation, std::size_t place);

// Of a routed token: source to destination, the step that moves all, and the steps that move one drawn pair
// each.
ExplanationTable pair_table(const Explanation& explanation, std::size_t place);
ExplanationTable step_table(const Explanation& explanation, std::size_t place);
ExplanationTable drawn_table(const Explanation& explanation, std::size_t place);

// The tables of a token in the order in which they are read.
std::vector<ExplanationTable> tables_of(const Explanation& explanation, std::size_t place);

// `token 12 "the"`.
std::string token_name(const Explanation& explanation, std::size_t place);

// The bytes of an id; none where its token is not known.
std::string bytes_of(const Explanation& explanation, std::int32_t id);

}  // namespace routeopd::report
