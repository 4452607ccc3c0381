// A table of words and numbers: plain for a terminal, Markdown and HTML for a page, LaTeX (booktabs) for a
// paper, CSV (RFC 4180) for a program. Cells come from files too: each stays one cell of one line, whatever
// is in it, and none is a link, a picture or a formula.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace routeopd::table {

enum class Align { kLeft, kRight };
enum class TableFormat { kText, kMarkdown, kLatex, kCsv, kHtml };

// Words beside tables, as one line: a comment in LaTeX, which has its own captions, and in CSV ("# …", which
// RFC 4180 does not know: without commas and quotation marks it is one field for readers that do not skip
// it); a paragraph in HTML.
std::string note(std::string_view words, TableFormat format);
std::string heading(std::string_view words, TableFormat format);

class TextTable {
 public:
  struct Column {
    std::string title;
    Align align = Align::kRight;
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as columns.
  void add(std::vector<std::string> cells);
  std::string text() const { return rendered(TableFormat::kText); }
  std::string rendered(TableFormat format) const;

  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

 private:
  std::string plain() const;
  std::string markdown() const;
  std::string latex() const;
  std::string csv() const;
  std::string html() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// The common case: words in the first column, numbers in the others.
std::string table_of(const std::vector<std::string>& titles,
                     const std::vector<std::vector<std::string>>& rows, TableFormat format);

}  // namespace routeopd::table
