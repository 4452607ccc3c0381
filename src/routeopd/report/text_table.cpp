//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/text_table.h"

#include <algorithm>

#include "routeopd/base/error.h"

namespace routeopd::report {
namespace {

// Characters of UTF-8 text: every byte that does not continue one.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t columns, Align align) {
  const std::string space(columns - std::min(columns, width(text)), ' ');
  return align == Align::kLeft ? text + space : space + text;
}

}  // namespace

void TextTable::add(std::vector<std::string> cells) {
  ROUTEOPD_INVARIANT(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t widest = width(columns_[c].title);
    for (const auto& row : rows_) widest = std::max(widest, width(row[c]));
    widths.push_back(widest);
  }
  std::string out;
  const auto line = [&](const auto& cell) {
    std::string row;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      row += (c ? "  " : "") + padded(cell(c), widths[c], columns_[c].align);
    }
    row.erase(row.find_last_not_of(' ') + 1);
    out += row + '\n';
  };
  if (std::any_of(columns_.begin(), columns_.end(),
                  [](const Column& column) { return !column.title.empty(); })) {
    line([&](std::size_t c) { return columns_[c].title; });
    line([&](std::size_t c) { return std::string(widths[c], '-'); });
  }
  for (const auto& row : rows_) line([&](std::size_t c) { return row[c]; });
  return out;
}

}  // namespace routeopd::report
