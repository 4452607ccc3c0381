// SPDX-License-Identifier: Apache-2.0
#include "routeopd/table/visible_text.h"

#include <gtest/gtest.h>

#include <string>

#include "routeopd/base/display.h"
#include "routeopd/base/utf8.h"

namespace routeopd::table {
namespace {

TEST(VisibleText, LeavesWhatCanBeSeen) {
  for (const char* text : {"", "a b", "été — 東京 😀", "\\frac{1}{2} \"x\""}) EXPECT_EQ(visible(text), text);
}

TEST(VisibleText, NothingActsOnATerminal) {
  EXPECT_EQ(visible("\x1b[31mred\x07\x7f\r\n\t"), "\\x1b[31mred\\x07\\x7f\\r\\n\\t");
  EXPECT_EQ(visible(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(visible("\u009b31m"), "\\u{9b}31m") << "the one-character form of ESC [";
  EXPECT_EQ(visible("a\u202eb\u2066c\u200bd\ufeffe\u2028f"),
            "a\\u{202e}b\\u{2066}c\\u{200b}d\\u{feff}e\\u{2028}f");
}

TEST(VisibleText, LinesAreShownAndObeyed) {
  EXPECT_EQ(visible_lines("a\n\nb\x1b"), "a\\n\n\\n\nb\\x1b");
  EXPECT_EQ(visible_lines("\n"), "\\n\n");
  EXPECT_EQ(visible_lines(""), "");
}

TEST(VisibleText, ShowsBytesThatMakeNoCharacter) {
  EXPECT_EQ(visible("\xf0\x9f\x98"), "\\xf0\\x9f\\x98");
  EXPECT_EQ(visible("a\x80z\xc3"), "a\\x80z\\xc3");
  EXPECT_EQ(visible("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string shown = visible(std::string{static_cast<char>(first), static_cast<char>(second)});
      ASSERT_EQ(find_invalid_utf8(shown), std::string::npos);
      for (const char c : shown) ASSERT_GE(static_cast<unsigned char>(c), 0x20);
    }
  }
}

TEST(VisibleText, QuotesTellTokensApart) {
  EXPECT_EQ(in_quotes("\n"), "\"\\n\"");
  EXPECT_EQ(in_quotes("\\n"), "\"\\\\n\"");
  EXPECT_EQ(in_quotes("\""), "\"\\\"\"");
}

TEST(VisibleText, MarkupBecomesText) {
  EXPECT_EQ(html_escaped("<a href='x' b=\"y\">&amp;"), "&lt;a href=&#39;x&#39; b=&#34;y&#34;&gt;&amp;amp;");
}

}  // namespace
}  // namespace routeopd::table
