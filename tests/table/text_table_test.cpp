// SPDX-License-Identifier: Apache-2.0
#include "routeopd/table/text_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace routeopd::table {
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
            "| \\[x\\] | \\\\{~ |\n");
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
  EXPECT_EQ(note("a, b\nc", TableFormat::kCsv), "# a; b c\r\n");
  // A quotation mark behind a comma would begin a field that swallows the rows.
  EXPECT_EQ(note("a,\"b", TableFormat::kCsv), "# a;'b\r\n");
  EXPECT_EQ(heading("a,\"b", TableFormat::kCsv), "# a;'b\r\n");
}

std::string one_cell(const std::string& cell, TableFormat format) {
  TextTable table(std::vector{TextTable::Column{"t", Align::kLeft}});
  table.add({cell});
  const std::string text = table.rendered(format);
  const std::string before = format == TableFormat::kCsv ? "t\r\n" : "| t |\n|---|\n";
  EXPECT_TRUE(text.starts_with(before)) << text;
  return text.substr(before.size());
}

TEST(TextTable, MarkdownHasNoLinkPictureOrEntityFromACell) {
  EXPECT_EQ(one_cell("![x](http://host/p.png)", TableFormat::kMarkdown),
            "| \\!\\[x\\](http://host/p.png) |\n");
  EXPECT_EQ(one_cell("<img src=x> &lt;b&gt;", TableFormat::kMarkdown), "| \\<img src=x> \\&lt;b\\&gt; |\n");
  EXPECT_EQ(note("[x]: http://host", TableFormat::kMarkdown), "\\[x\\]: http://host\n");
  EXPECT_EQ(heading("[x](y)", TableFormat::kMarkdown), "### \\[x\\](y)\n\n");
  for (const char* numbers : {"+2.09 [+1.41, +2.81]", "[-1, 2.5e-05]", "–", "12:30", "1/2", "3×", "95 %"})
    EXPECT_EQ(one_cell(numbers, TableFormat::kMarkdown), fmt::format("| {} |\n", numbers));
}

TEST(TextTable, CsvHasNoFormulaFromACell) {
  const auto csv = [](const std::string& cell) { return one_cell(cell, TableFormat::kCsv); };
  EXPECT_EQ(csv("=HYPERLINK(\"http://host\",\"x\")"), "\"'=HYPERLINK(\"\"http://host\"\",\"\"x\"\")\"\r\n");
  EXPECT_EQ(csv("=1+1"), "'=1+1\r\n");
  EXPECT_EQ(csv("@sum"), "'@sum\r\n");
  EXPECT_EQ(csv("+cmd|x"), "'+cmd|x\r\n");
  EXPECT_EQ(csv("-a"), "'-a\r\n");
  EXPECT_EQ(csv("\tx"), "' x\r\n");
  EXPECT_EQ(csv("\rx"), "' x\r\n");
  EXPECT_EQ(csv(" \x01=1"), "'  =1\r\n");
  // Numbers with signs stay numbers, and words with signs inside stay as they are.
  for (const char* numbers : {"-0.42", "+2.09", "-1.5e-05", "–", "-", "-0.1 / 0.2", "", "a=b", "x - y"})
    EXPECT_EQ(csv(numbers), fmt::format("{}\r\n", numbers));
  EXPECT_EQ(csv("+2.09 [+1.41, +2.81]"), "\"+2.09 [+1.41, +2.81]\"\r\n");
  const TextTable table(std::vector{TextTable::Column{"=t", Align::kLeft}});
  EXPECT_EQ(table.rendered(TableFormat::kCsv), "'=t\r\n");
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
}  // namespace routeopd::table
