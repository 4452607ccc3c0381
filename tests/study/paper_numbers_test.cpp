// The paper's numbers against its source, where that is at hand: $SHARED/paper.tex, or ../shared beside the
// repository.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/paper_numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "testing_files.h"

namespace routeopd::study {
namespace {

std::string paper() {
  const char* const shared = std::getenv("SHARED");
  const std::filesystem::path home =
      shared != nullptr ? std::filesystem::path(shared)
                        : std::filesystem::path(ROUTEOPD_TEST_DATA).parent_path().parent_path() / "shared";
  return bytes_in(home / "paper.tex");
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// Takes away NAME{…} with as many braces as it has.
void drop_command(std::string& text, const std::string& name, int arguments) {
  for (std::size_t at = 0; (at = text.find(name + "{", at)) != std::string::npos;) {
    std::size_t end = at + name.size();
    for (int i = 0; i < arguments; ++i) end = text.find('}', end) + 1;
    text.erase(at, end - at);
  }
}

// TeX as the words a reader sees.
std::string plain(std::string text) {
  drop_command(text, "\\multirow", 3);
  drop_command(text, "\\cellcolor", 1);
  replace_all(text, "\\method{}", "RouteOPD");
  for (const char* command : {"\\toprule", "\\midrule", "\\bottomrule", "\\textbf", "\\mathbf", "\\rm",
                              "\\times", "\\!", "\\,", "{", "}", "$", "\\%"})
    replace_all(text, command, "");
  replace_all(text, "\\to", "→");
  replace_all(text, "\\log", "log");
  replace_all(text, "\\ ", " ");
  std::string out;
  for (const char c : text) {
    const char shown = c == '\n' || c == '\t' ? ' ' : c;
    if (shown != ' ' || (!out.empty() && out.back() != ' ')) out += shown;
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::vector<double> numbers_in(const std::string& text) {
  std::vector<double> numbers;
  for (std::size_t i = 0; i < text.size();) {
    const bool digit = std::isdigit(static_cast<unsigned char>(text[i])) != 0;
    const bool point =
        text[i] == '.' && i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i + 1]));
    if (!digit && !point) {
      ++i;
      continue;
    }
    const bool minus = i > 0 && text[i - 1] == '-';
    std::size_t end = 0;
    const double value = std::stod(text.substr(i), &end);
    numbers.push_back(minus ? -value : value);
    i += end;
  }
  return numbers;
}

struct Row {
  std::vector<std::string> cells;
};

// Rows with figures of the table that carries this label.
std::vector<Row> rows_of(const std::string& tex, const std::string& label) {
  const std::size_t begin = tex.find("\\label{" + label + "}");
  if (begin == std::string::npos) return {};
  std::string body = tex.substr(begin, tex.find("\\end{table", begin) - begin);
  std::vector<Row> rows;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = std::min(body.find("\\\\", at), body.size());
    std::string line = body.substr(at, end - at);
    at = end + 2;
    if (line.find("\\toprule") != std::string::npos) continue;  // the titles of columns
    if (line.find('&') == std::string::npos) continue;
    Row row;
    for (std::size_t from = 0; from <= line.size();) {
      std::size_t to = line.find('&', from);
      while (to != std::string::npos && to > 0 && line[to - 1] == '\\') to = line.find('&', to + 1);
      to = std::min(to, line.size());
      const std::string cell = plain(line.substr(from, to - from));
      if (!row.cells.empty() || !cell.empty()) row.cells.push_back(cell);
      from = to + 1;
    }
    if (row.cells.size() > 1) rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<double> without_dashes(const std::vector<double>& values) {
  std::vector<double> found;
  for (const double value : values)
    if (!std::isnan(value)) found.push_back(value);
  return found;
}

TEST(PaperNumbers, TablesAreThePapersRowByRow) {
  const std::string tex = paper();
  if (tex.empty()) GTEST_SKIP() << "no paper.tex in $SHARED or ../shared";
  std::map<std::string, std::vector<PaperRow>> ours;
  for (const PaperTable& table : paper_tables())
    if (!table.text) ours[table.label].insert(ours[table.label].end(), table.rows.begin(), table.rows.end());
  for (const auto& [label, rows] : ours) {
    SCOPED_TRACE(label);
    const std::vector<Row> theirs = rows_of(tex, label);
    ASSERT_EQ(theirs.size(), rows.size());
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const bool two = rows[r].words.find(" & ") != std::string::npos;
      const std::vector<std::string>& cells = theirs[r].cells;
      EXPECT_EQ(rows[r].words, two ? cells[0] + " & " + cells[1] : cells[0]);
      std::vector<double> numbers;
      for (std::size_t c = two ? 2 : 1; c < cells.size(); ++c)
        for (const double number : numbers_in(cells[c])) numbers.push_back(number);
      EXPECT_EQ(without_dashes(rows[r].values), numbers) << rows[r].words;
    }
  }
}

TEST(PaperNumbers, TextIsThePapers) {
  const std::string tex = paper();
  if (tex.empty()) GTEST_SKIP() << "no paper.tex in $SHARED or ../shared";
  for (const PaperTable& table : paper_tables()) {
    if (!table.text) continue;
    SCOPED_TRACE(table.id);
    const std::size_t begin = tex.find(table.label);
    ASSERT_NE(begin, std::string::npos);
    const std::vector<double> theirs = numbers_in(plain(tex.substr(begin, tex.find("\n\n", begin) - begin)));
    auto at = theirs.begin();
    for (const PaperRow& row : table.rows) {
      for (const double value : without_dashes(row.values)) {
        at = std::find(at, theirs.end(), value);
        ASSERT_NE(at, theirs.end()) << row.name << " " << value;
        ++at;
      }
    }
  }
}

TEST(PaperNumbers, EveryTableIsWhole) {
  std::set<std::string> ids;
  for (const PaperTable& table : paper_tables()) {
    EXPECT_TRUE(ids.insert(table.id).second) << table.id;
    std::set<std::string> names;
    for (const PaperRow& row : table.rows) {
      EXPECT_EQ(row.values.size(), table.columns.size()) << table.id << " " << row.name;
      EXPECT_TRUE(names.insert(row.name).second) << table.id << " " << row.name;
    }
  }
  EXPECT_EQ(paper_number("budget", "reversed", "avg"), 63.88);
  EXPECT_EQ(paper_number("stability", "sampled_rkl", "routed_share"), std::nullopt);
  EXPECT_EQ(paper_number("budget", "union_rkl", "avg"), std::nullopt);
}

// The averages and the contrasts are rounded apart: they agree within a rounding of each.
TEST(PaperNumbers, AgreeAmongThemselves) {
  for (int s = 1; s <= kPaperSettings; ++s) {
    const std::string id = fmt::format("main-{}", s);
    for (const PaperRow& row : paper_table(id).rows) {
      const double mean = (row.values[0] + row.values[1] + row.values[2] + row.values[3]) / 4;
      EXPECT_NEAR(mean, row.values[4], 0.0101) << id << " " << row.name;
    }
    for (const char* arm : {"sampled_rkl", "full_rkl", "fixed_mid"}) {
      const double difference = *paper_number(id, "routeopd", "avg") - *paper_number(id, arm, "avg");
      EXPECT_NEAR(difference, *paper_number("paired", id, arm), 0.0201) << id << " " << arm;
    }
  }
}

}  // namespace
}  // namespace routeopd::study
