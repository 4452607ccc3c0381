// Every example of docs/grading.md: rows "| rule | wanted | right | wrong |" and "| response | extracted |
// why |", answers between back-ticks.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "routeopd/grade/answer.h"

namespace routeopd::grade {
namespace {

// The cells of a row; "\|" is a bar within a cell.
std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells(1);
  for (std::size_t at = 0; at < row.size(); ++at) {
    if (row[at] == '\\' && at + 1 < row.size() && row[at + 1] == '|') {
      cells.back() += row[++at];
    } else if (row[at] == '|') {
      cells.emplace_back();
    } else {
      cells.back() += row[at];
    }
  }
  return cells;
}

std::vector<std::string> quoted(const std::string& cell) {
  std::vector<std::string> texts;
  for (std::size_t begin = 0; (begin = cell.find('`', begin)) != std::string::npos;) {
    const std::size_t end = cell.find('`', begin + 1);
    if (end == std::string::npos) break;
    texts.push_back(cell.substr(begin + 1, end - begin - 1));
    begin = end + 1;
  }
  return texts;
}

TEST(GradingDocs, EveryExampleHolds) {
  std::ifstream page(ROUTEOPD_TEST_DATA "/../docs/grading.md");
  ASSERT_TRUE(page);
  int examples = 0;
  for (std::string row; std::getline(page, row);) {
    const std::vector<std::string> cells = cells_of(row);
    if (cells.size() != 6 || cells[2].substr(0, 2) != " `") continue;
    const std::string wanted = quoted(cells[2]).at(0);
    for (const bool right : {true, false}) {
      for (const std::string& given : quoted(cells[right ? 3 : 4])) {
        EXPECT_EQ(grade_response("\\boxed{" + given + "}", wanted).correct, right)
            << given << " for " << wanted;
        ++examples;
      }
    }
  }
  EXPECT_GT(examples, 200);
}

TEST(GradingDocs, EveryResponseGivesItsAnswer) {
  std::ifstream page(ROUTEOPD_TEST_DATA "/../docs/grading.md");
  ASSERT_TRUE(page);
  int answers = 0, none = 0;
  for (std::string row; std::getline(page, row);) {
    const std::vector<std::string> cells = cells_of(row);
    if (cells.size() != 5 || cells[1].substr(0, 2) != " `") continue;
    const std::vector<std::string> extracted = quoted(cells[2]);
    ASSERT_TRUE(extracted.size() == 1 || cells[2] == " nothing ") << row;
    for (const std::string& response : quoted(cells[1])) {
      const Grade grade = grade_response(response, "\\text{another}");
      EXPECT_EQ(grade.extracted, extracted.empty() ? "" : extracted[0]) << response;
      EXPECT_EQ(grade.format_ok, !extracted.empty()) << response;
      ++(extracted.empty() ? none : answers);
    }
  }
  EXPECT_GT(answers, 15);
  EXPECT_GT(none, 10);
}

}  // namespace
}  // namespace routeopd::grade
