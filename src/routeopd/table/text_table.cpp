// SPDX-License-Identifier: Apache-2.0
#include "routeopd/table/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "routeopd/base/display.h"
#include "routeopd/base/error.h"
#include "routeopd/table/visible_text.h"

namespace routeopd::table {
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

// Line feeds and other control characters would begin another line, or another cell.
std::string one_line(std::string_view words) {
  std::string line(words);
  std::replace_if(line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return line;
}

// Whether a cell is numbers as we write them, with signs, intervals and dashes: "+2.09 [+1.41, +2.81]".
bool is_numbers(std::string_view words) {
  static constexpr std::array<std::string_view, 3> kBeyondAscii = {"–", "×", "∞"};
  while (!words.empty()) {
    std::size_t length = std::string_view("0123456789+-.,[]%:/ e").find(words[0]) != words.npos ? 1 : 0;
    for (const std::string_view sign : kBeyondAscii) {
      if (words.starts_with(sign)) length = sign.size();
    }
    if (length == 0) return false;
    words.remove_prefix(length);
  }
  return true;
}

// Nothing of the words is markup: neither table, code and stress nor links, pictures, entities and HTML.
std::string markdown_words(std::string_view words) {
  std::string out;
  for (const char c : words) {
    if (std::string_view("\\|`*_<[]!&").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string latex_words(std::string_view words) {
  struct Sign {
    std::string_view from, to;
  };
  static constexpr std::array<Sign, 14> kSigns = {{{"\\", "\\textbackslash{}"},
                                                   {"→", "$\\to$"},
                                                   {"≥", "$\\ge$"},
                                                   {"±", "$\\pm$"},
                                                   {"–", "--"},
                                                   {"−", "$-$"},
                                                   {"~", "\\~{}"},
                                                   {"^", "\\^{}"},
                                                   {"&", "\\&"},
                                                   {"%", "\\%"},
                                                   {"$", "\\$"},
                                                   {"#", "\\#"},
                                                   {"_", "\\_"},
                                                   {"{", "\\{"}}};
  std::string out;
  for (std::size_t i = 0; i < words.size();) {
    const std::string_view rest = words.substr(i);
    const auto sign = std::find_if(kSigns.begin(), kSigns.end(),
                                   [&](const Sign& each) { return rest.starts_with(each.from); });
    // A minus before a digit, at the beginning or after a space or bracket, is one and no hyphen.
    const bool minus = rest.size() > 1 && rest[0] == '-' && rest[1] >= '0' && rest[1] <= '9' &&
                       (i == 0 || words[i - 1] == ' ' || words[i - 1] == '[');
    if (sign != kSigns.end()) {
      out += sign->to;
      i += sign->from.size();
    } else {
      out += minus ? "$-$" : rest[0] == '}' ? "\\}" : std::string(1, rest[0]);
      ++i;
    }
  }
  return out;
}

// RFC 4180: a field in quotes, and a quotation mark in it twice.
std::string csv_quoted(std::string_view line) {
  std::string out = "\"";
  for (const char c : line) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

// A line after "#" that readers of comments skip and all others take for one field: no comma splits it, no
// quotation mark opens a field over the rows below.
std::string csv_remark(std::string line) {
  std::replace(line.begin(), line.end(), ',', ';');
  std::replace(line.begin(), line.end(), '"', '\'');
  return line;
}

// A spreadsheet takes what begins so for a formula, and some drop blanks before it; after an apostrophe it is
// text.
bool is_formula(std::string_view words) {
  const auto* const first =
      std::find_if(words.begin(), words.end(), [](unsigned char c) { return c > 0x20 && c != 0x7f; });
  const bool calculates =
      first != words.end() && std::string_view("=+-@").find(*first) != std::string_view::npos;
  return (calculates || words.starts_with('\t') || words.starts_with('\r')) && !is_numbers(words);
}

std::string csv_cell(std::string_view words) {
  const std::string field = fmt::format("{}{}", is_formula(words) ? "'" : "", one_line(words));
  return field.find_first_of(",\"") == std::string::npos ? field : csv_quoted(field);
}

std::string escaped(std::string_view words, TableFormat format) {
  const std::string line = visible(one_line(words));
  switch (format) {
    case TableFormat::kText:
      break;
    case TableFormat::kMarkdown:
      return markdown_words(line);
    case TableFormat::kLatex:
      return latex_words(line);
    case TableFormat::kCsv:
      return csv_cell(words);
    case TableFormat::kHtml:
      return html_escaped(line);
  }
  return line;
}

// Brackets of intervals make no link and stay as they are.
std::string markdown_cell(std::string_view words) {
  return is_numbers(words) ? std::string(words) : escaped(words, TableFormat::kMarkdown);
}

}  // namespace

std::string note(std::string_view words, TableFormat format) {
  switch (format) {
    case TableFormat::kLatex:
      return fmt::format("% {}\n", escaped(words, format));
    case TableFormat::kCsv:
      return fmt::format("# {}\r\n", csv_remark(one_line(words)));
    case TableFormat::kHtml:
      return fmt::format("<p>{}</p>\n", escaped(words, format));
    default:
      return fmt::format("{}\n", escaped(words, format));
  }
}

std::string heading(std::string_view words, TableFormat format) {
  if (format == TableFormat::kMarkdown) return fmt::format("### {}\n\n", escaped(words, format));
  if (format == TableFormat::kHtml) return fmt::format("<h3>{}</h3>\n", escaped(words, format));
  return note(words, format);
}

std::string TextTable::rendered(TableFormat format) const {
  switch (format) {
    case TableFormat::kMarkdown:
      return markdown();
    case TableFormat::kLatex:
      return latex();
    case TableFormat::kCsv:
      return csv();
    case TableFormat::kHtml:
      return html();
    case TableFormat::kText:
      break;
  }
  return plain();
}

std::string TextTable::csv() const {
  std::string out;
  const auto line = [&](const auto& cell) {
    for (std::size_t c = 0; c < columns_.size(); ++c)
      out += fmt::format("{}{}", c ? "," : "", escaped(cell(c), TableFormat::kCsv));
    out += "\r\n";
  };
  line([&](std::size_t c) { return columns_[c].title; });
  for (const auto& row : rows_) line([&](std::size_t c) { return row[c]; });
  return out;
}

// Class r is right-aligned; the first cell of a row says what the row is of.
std::string TextTable::html() const {
  std::string out = "<table>\n<thead>\n";
  const auto line = [&](std::string_view first, std::string_view other, const auto& cell) {
    out += "<tr>";
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string_view tag = c == 0 ? first : other;
      out += fmt::format("<{}{}>{}</{}>", tag, columns_[c].align == Align::kRight ? " class=\"r\"" : "",
                         escaped(cell(c), TableFormat::kHtml), tag.substr(0, 2));
    }
    out += "</tr>\n";
  };
  line("th scope=\"col\"", "th scope=\"col\"", [&](std::size_t c) { return columns_[c].title; });
  out += "</thead>\n<tbody>\n";
  for (const auto& row : rows_) line("th scope=\"row\"", "td", [&](std::size_t c) { return row[c]; });
  return out + "</tbody>\n</table>\n";
}

std::string TextTable::markdown() const {
  std::string out = "|";
  for (const Column& column : columns_)
    out += fmt::format(" {} |", escaped(column.title, TableFormat::kMarkdown));
  out += "\n|";
  for (const Column& column : columns_) out += column.align == Align::kLeft ? "---|" : "---:|";
  out += "\n";
  for (const auto& row : rows_) {
    out += "|";
    for (const std::string& cell : row) out += fmt::format(" {} |", markdown_cell(cell));
    out += "\n";
  }
  return out;
}

std::string TextTable::latex() const {
  std::string out = "\\begin{tabular}{";
  for (const Column& column : columns_) out += column.align == Align::kLeft ? 'l' : 'r';
  out += "}\n\\toprule\n";
  const auto line = [&](const auto& cell) {
    for (std::size_t c = 0; c < columns_.size(); ++c)
      out += fmt::format("{}{}", c ? " & " : "", escaped(cell(c), TableFormat::kLatex));
    out += " \\\\\n";
  };
  line([&](std::size_t c) { return columns_[c].title; });
  out += "\\midrule\n";
  for (const auto& row : rows_) {
    // A first cell with a bracket would be read as an option of the line break before it.
    if (row[0].starts_with('[')) out += "{}";
    line([&](std::size_t c) { return row[c]; });
  }
  return out + "\\bottomrule\n\\end{tabular}\n";
}

void TextTable::add(std::vector<std::string> cells) {
  ROUTEOPD_INVARIANT(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::plain() const {
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
  for (const auto& row : rows_) line([&](std::size_t c) { return one_line(row[c]); });
  return out;
}

std::string table_of(const std::vector<std::string>& titles,
                     const std::vector<std::vector<std::string>>& rows, TableFormat format) {
  std::vector<TextTable::Column> columns;
  for (const std::string& title : titles)
    columns.push_back({title, columns.empty() ? Align::kLeft : Align::kRight});
  TextTable table(std::move(columns));
  for (const std::vector<std::string>& row : rows) table.add(row);
  return table.rendered(format);
}

}  // namespace routeopd::table
