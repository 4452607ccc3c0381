// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace routeopd::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

grade::Comparison example_comparison() {
  grade::SuiteComparison math{
      "math", 4, 2, 0.5, 0.375, {-0.125, -0.25, -0.000001}, {3, 1, 0, 4}, {{"p|1", 2, 0}, {"p_2\nx", 0, 1}}};
  grade::SuiteComparison aime{"aime", 30, 16, 0.1, 0.25, {0.15, 0.05, 0.3}, {40, 8, 80, 352}, {}};
  return {"runs/a", "runs/b", {}, {aime, math}, 0.3, 0.3125, {0.0125, -0.1, 0.125}, {43, 9, 80, 356}};
}

TEST(ComparisonText, ShowsSuitesTheirAverageAndTheWorstChanges) {
  EXPECT_EQ(
      comparison_report(example_comparison(), table::TableFormat::kText, 1),
      "A: runs/a\n"
      "B: runs/b\n"
      "\n"
      "suite    problems  samples      A      B     B-A     95 % interval  both  A only  B only  neither\n"
      "-------  --------  -------  -----  -----  ------  ----------------  ----  ------  ------  -------\n"
      "aime           30       16  10.00  25.00  +15.00   [+5.00, +30.00]    40       8      80      352\n"
      "math            4        2  50.00  37.50  -12.50    [-25.00, 0.00]     3       1       0        4\n"
      "average                     30.00  31.25   +1.25  [-10.00, +12.50]    43       9      80      356\n"
      "\n"
      "Averages in %, B-A in points; paired bootstrap over problems, 10000 draws, seed 42.\n"
      "\n"
      "aime: 0 of 30 problems changed\n"
      "\n"
      "math: 2 of 4 problems changed, worst 1 shown\n"
      "problem  right in A  right in B  change\n"
      "-------  ----------  ----------  ------\n"
      "p|1               2           0      -2\n");
}

TEST(ComparisonText, OneSuiteHasNoAverageAndAnIdNoLineFeed) {
  grade::Comparison comparison = example_comparison();
  comparison.suites.erase(comparison.suites.begin());
  const std::string text = comparison_report(comparison, table::TableFormat::kText);
  EXPECT_THAT(text, Not(HasSubstr("average ")));
  EXPECT_THAT(text, HasSubstr("\np_2 x             0           1      +1\n"));
  EXPECT_THAT(text, Not(HasSubstr("shown")));
}

TEST(ComparisonMarkdown, IsTheSameInTablesWithIdsEscaped) {
  const std::string text = comparison_report(example_comparison(), table::TableFormat::kMarkdown);
  EXPECT_THAT(
      text,
      HasSubstr("A: runs/a  \nB: runs/b\n\n| suite | problems | samples | A | B | B-A | 95 % interval | "
                "both | A only | B only | neither |\n"
                "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
                "| aime | 30 | 16 | 10.00 | 25.00 | +15.00 | [+5.00, +30.00] | 40 | 8 | 80 | 352 |\n"));
  EXPECT_THAT(
      text,
      HasSubstr("\n### math: 2 of 4 problems changed\n\n| problem | right in A | right in B | change |\n"
                "|---|---:|---:|---:|\n| p\\|1 | 2 | 0 | -2 |\n| p\\_2 x | 0 | 1 | +1 |\n"));
}

TEST(ComparisonLatex, HasWordsAsComments) {
  const std::string text = comparison_report(example_comparison(), table::TableFormat::kLatex);
  EXPECT_THAT(text, HasSubstr("% A: runs/a\n% B: runs/b\n\n\\begin{tabular}{lrrrrrrrrrr}\n"));
  EXPECT_THAT(text, HasSubstr("\n% math: 2 of 4 problems changed\n\\begin{tabular}"));
}

TEST(MacroReport, ShowsPairsThenMeans) {
  const grade::MacroRow aime{"aime", 2, 0.1, 0.2, {0.1, 0.05, 0.15}, {1, 2, 3, 4}};
  const grade::MacroRow all{"average", 2, 0.3, 0.45, {0.15, 0.1, 0.2}, {5, 6, 7, 8}};
  EXPECT_EQ(
      macro_report({{example_comparison(), example_comparison()}, {.draws = 500}, {aime}, all},
                   table::TableFormat::kText),
      "A → B, average over suites      A      B    B-A     95 % interval  both  A only  B only  neither\n"
      "--------------------------  -----  -----  -----  ----------------  ----  ------  ------  -------\n"
      "runs/a → runs/b             30.00  31.25  +1.25  [-10.00, +12.50]    43       9      80      356\n"
      "runs/a → runs/b             30.00  31.25  +1.25  [-10.00, +12.50]    43       9      80      356\n"
      "\n"
      "mean over pairs  pairs      A      B     B-A     95 % interval  both  A only  B only  neither\n"
      "---------------  -----  -----  -----  ------  ----------------  ----  ------  ------  -------\n"
      "aime                 2  10.00  20.00  +10.00   [+5.00, +15.00]     1       2       3        4\n"
      "macro average        2  30.00  45.00  +15.00  [+10.00, +20.00]     5       6       7        8\n"
      "\n"
      "Averages in %, B-A in points; paired bootstrap over problems, 500 draws, seed 42.\n");
}

}  // namespace
}  // namespace routeopd::report
