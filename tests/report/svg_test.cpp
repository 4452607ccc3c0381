// Drawings of another program: what a page takes of them, and what it does not.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/svg.h"

#include <gmock/gmock.h>

#include "routeopd/base/error.h"

namespace routeopd::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string around(const std::string& body) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"10\" height=\"20\" viewBox=\"0 0 10 20\">" +
         body + "</svg>";
}

std::string refusal(const std::string& svg) {
  try {
    page_svg(svg, "p", "words");
  } catch (const UserError& error) {
    return error.what();
  }
  return "taken";
}

TEST(PageSvg, KeepsShapesAndWordsAndLosesNamespaces) {
  EXPECT_EQ(page_svg(around("<g transform=\"translate(1,2)\" aria-hidden=\"true\" class=\"x\"><path "
                            "d=\"M0,0\"/><text>a &lt; b</text></g>\n"),
                     "p", "\"words\" <b>"),
            "<svg role=\"img\" aria-label=\"&#34;words&#34; &lt;b&gt;\" width=\"10\" height=\"20\" "
            "viewBox=\"0 0 10 20\">"
            "<g transform=\"translate(1,2)\"><path d=\"M0,0\"/><text>a &lt; b</text></g>\n</svg>");
}

TEST(PageSvg, PutsVariablesInPlaceOfOurColours) {
  const std::string page =
      page_svg(around("<path fill=\"#0072b2\" stroke=\"#123456\"/><rect fill=\"#ffffff\"/>"), "p", "");
  EXPECT_THAT(page, HasSubstr("fill=\"var(--blue)\" stroke=\"#123456\""));
  EXPECT_THAT(page, HasSubstr("<rect fill=\"var(--ground)\"/>"));
}

TEST(PageSvg, GivesIdsAPrefix) {
  const std::string page =
      page_svg(around("<defs><clipPath id=\"clip0\"/></defs><g clip-path=\"url(#clip0)\"/>"), "fig", "");
  EXPECT_THAT(page, HasSubstr("id=\"fig-clip0\""));
  EXPECT_THAT(page, HasSubstr("url(#fig-clip0)"));
}

TEST(PageSvg, RefusesWhatActsOrFetches) {
  for (const char* body : {"<script>alert(1)</script>",
                           "<image href=\"https://example.org/a.png\"/>",
                           "<a href=\"x\"/>",
                           "<style>@import 'x'</style>",
                           "<g onclick=\"alert(1)\"/>",
                           "<g style=\"background:url(x)\"/>",
                           "<foreignObject/>",
                           "<use href=\"#a\"/>",
                           "<path fill=\"url(https://example.org/a)\"/>",
                           "<path fill=\"url(#a) url(b)\"/>",
                           "<path fill=\"URL(https://example.org/a#b)\"/>",
                           "<path fill=\"Url(#a)\"/>",
                           "<path fill=\"url(#a) uRL(b)\"/>",
                           "<path fill=\"&#117;rl(https://example.org/a#b)\"/>",
                           "<path stroke=\"\\75 rl(https://example.org/a#b)\"/>",
                           "<g clip-path=\"&#x75;rl(https://example.org/a#b)\"/>",
                           "<svg></svg>",
                           "<!-- c --><g/>",
                           "<![CDATA[x]]>",
                           "<?php ?>",
                           "<g xlink:href=\"x\"/>",
                           "<animate attributeName=\"href\"/>",
                           "<g><path></g></path>",
                           "<g",
                           "<g a=1/>",
                           "<g fill='x'/>",
                           "<g fill=\"<\"/>",
                           "\xff"})
    EXPECT_THAT(refusal(around(body)), HasSubstr("which a page does not take")) << body;
  EXPECT_THAT(refusal("<?xml version=\"1.0\"?>" + around("")), HasSubstr("another beginning"));
  EXPECT_THAT(refusal(around("") + "<script/>"), HasSubstr("after its end"));
  EXPECT_THAT(refusal("<svg>"), HasSubstr("does not take"));
  EXPECT_THAT(refusal(""), HasSubstr("another beginning"));
  std::string deep;
  for (int i = 0; i < 300; ++i) deep += "<g>";
  EXPECT_THAT(refusal(around(deep)), HasSubstr("too many levels"));
  EXPECT_EQ(refusal(around("<g/>")), "taken");
  // Words may have entities, and what is left out of the drawing anything.
  EXPECT_EQ(refusal(around("<text aria-label=\"a &amp; \\b\">a &amp; \\b</text>")), "taken");
}

}  // namespace
}  // namespace routeopd::report
