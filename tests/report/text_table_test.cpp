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

TEST(TextTable, IsCsvByRfc4180) {
  TextTable table({{"name", Align::kLeft}, {"95 %, of it", Align::kRight}});
  table.add({"say \"x\"", "-1.5"});
  table.add({"two\r\nlines", "[1, 2]"});
  EXPECT_EQ(table.rendered(TableFormat::kCsv),
            "name,\"95 %, of it\"\r\n"
            "\"say \"\"x\"\"\",-1.5\r\n"
            "two  lines,\"[1, 2]\"\r\n");
  EXPECT_EQ(note("a, b\nc", TableFormat::kCsv), "# a, b c\r\n");
}

TEST(TextTable, IsHtmlWithScopesAndNothingOfTheCellsIsMarkup) {
  TextTable table({{"<b>", Align::kLeft}, {"x", Align::kRight}});
  table.add({"a & \"b\"", "<script>\xE2\x80\xAE"});
  EXPECT_EQ(
      table.rendered(TableFormat::kHtml),
      "<table>\n<thead>\n"
      "<tr><th scope=\"col\">&lt;b&gt;</th><th scope=\"col\" class=\"r\">x</th></tr>\n"
      "</thead>\n<tbody>\n"
      "<tr><th scope=\"row\">a &amp; &#34;b&#34;</th><td class=\"r\">&lt;script&gt;\\u{202e}</td></tr>\n"
      "</tbody>\n</table>\n");
  EXPECT_EQ(note("1 < 2", TableFormat::kHtml), "<p>1 &lt; 2</p>\n");
  EXPECT_EQ(heading("1 < 2", TableFormat::kHtml), "<h3>1 &lt; 2</h3>\n");
}

}  // namespace
}  // namespace routeopd::report
