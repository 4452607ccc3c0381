// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/text_table.h"

#include <gtest/gtest.h>

namespace routeopd::report {
namespace {

TEST(TextTable, AlignsByCharactersAndLeavesNoTrailingBlanks) {
  TextTable table({{"name", Align::kLeft}, {"x", Align::kRight}, {"note", Align::kLeft}});
  table.add({"é", "1.5", "a"});
  table.add({"longer", "10", ""});
  EXPECT_EQ(table.text(),
            "name      x  note\n"
            "------  ---  ----\n"
            "é       1.5  a\n"
            "longer   10\n");
}

TEST(TextTable, IsMarkdownAndLatexToo) {
  TextTable table({{"name", Align::kLeft}, {"95 %", Align::kRight}});
  table.add({"a_b|c\nd", "1"});
  table.add({"[x]", "\\{~"});
  EXPECT_EQ(table.rendered(TableFormat::kMarkdown),
            "| name | 95 % |\n"
            "|---|---:|\n"
            "| a\\_b\\|c d | 1 |\n"
            "| [x] | \\\\{~ |\n");
  EXPECT_EQ(table.rendered(TableFormat::kLatex),
            "\\begin{tabular}{lr}\n"
            "\\toprule\n"
            "name & 95 \\% \\\\\n"
            "\\midrule\n"
            "a\\_b|c d & 1 \\\\\n"
            "{}[x] & \\textbackslash{}\\{\\~{} \\\\\n"
            "\\bottomrule\n"
            "\\end{tabular}\n");
}

}  // namespace
}  // namespace routeopd::report
