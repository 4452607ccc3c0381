// The parts of grade/math by themselves: numbers as written, normal forms, values.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "routeopd/grade/math/normal_form.h"
#include "routeopd/grade/math/number_scan.h"
#include "routeopd/grade/math/numeric_value.h"
#include "routeopd/grade/math/parser.h"
#include "routeopd/grade/math/unicode_math.h"

namespace routeopd::grade::math {
namespace {

Node tree(std::string_view text) {
  return parsed(tokens_of(text, Commas::kUsual));
}

std::string value_of(std::string_view text) {
  Budget budget;
  const auto value = rational_value(tree(text), budget);
  return value ? value->get_str() : "none";
}

TEST(NumberScan, TakesWhatBelongsToTheNumber) {
  struct Case {
    std::string text;
    bool commas_group;
    std::string value;
    int places;
    std::size_t length;
  };
  const Case cases[] = {
      {"12", true, "12", -1, 2},
      {"1,234", true, "1234", -1, 5},
      {"1,234", false, "1", -1, 1},
      {"1{,}234", false, "1234", -1, 7},
      {"1,\\!234", false, "1234", -1, 7},
      {"1\\,234", false, "1234", -1, 6},
      {"1 234", false, "1234", -1, 5},
      {"1,234,567.50", true, "2469135/2", 2, 12},
      {"1,23", true, "1", -1, 1},
      {"1,2345", true, "1", -1, 1},
      {"1,234,5", true, "1", -1, 1},
      {"0,123", true, "0", -1, 1},
      {"1234,567", true, "1234", -1, 4},
      {".5", true, "1/2", 1, 2},
      {"5.", true, "5", -1, 1},
      {"2.50", true, "5/2", 2, 4},
      {"0.1\\overline{6}", true, "1/6", -1, 15},
      {"0.\\overline{142857}", true, "1/7", -1, 19},
      {"0.\\overline{}", true, "0", -1, 1},
      {"1.5e-3", true, "3/2000", -1, 6},
      {"2e", true, "2", -1, 1},
  };
  for (const Case& one : cases) {
    const ScannedNumber number = scan_number(one.text, one.commas_group);
    EXPECT_EQ(number.value.get_str(), one.value) << one.text;
    EXPECT_EQ(number.places, one.places) << one.text;
    EXPECT_EQ(number.length, one.length) << one.text;
  }
}

TEST(UnicodeMath, BecomesLatex) {
  EXPECT_EQ(ascii_latex("−½·x²"), "-\\frac{1}{2}*x^{2}");
  EXPECT_EQ(ascii_latex("x⁻¹²₁₀"), "x^{-12}_{10}");
  EXPECT_EQ(ascii_latex("√50+√x"), "\\sqrt{50}+\\sqrt x");
  EXPECT_EQ(ascii_latex("（１２，３）"), "(12,3)");
  EXPECT_EQ(ascii_latex("é\xFF\xEF"), "é\xFF\xEF");
}

TEST(NormalForm, RationalsAreExact) {
  EXPECT_EQ(value_of("\\frac{1}{3}+\\frac{1}{6}"), "1/2");
  EXPECT_EQ(value_of("2^{-3}"), "1/8");
  EXPECT_EQ(value_of("-2^2"), "-4");
  EXPECT_EQ(value_of("2^{3^2}"), "512");
  EXPECT_EQ(value_of("1 - 2 - 3"), "-4");
  EXPECT_EQ(value_of("8/4/2"), "1");
  EXPECT_EQ(value_of("3!+\\binom{6}{3}"), "26");
  EXPECT_EQ(value_of("\\lfloor -3.5 \\rfloor + \\lceil 3.2 \\rceil"), "0");
  EXPECT_EQ(value_of("\\gcd(12, 18) + \\max(1, 3, 2)"), "9");
  EXPECT_EQ(value_of("\\sqrt{\\frac{9}{4}}"), "3/2");
  EXPECT_EQ(value_of("\\sqrt[3]{-27}"), "-3");
  EXPECT_EQ(value_of("27^{2/3}"), "9");
  EXPECT_EQ(value_of("12.5\\%"), "1/8");
  EXPECT_EQ(value_of("\\sqrt2\\sqrt8"), "4");
  EXPECT_EQ(value_of("i^2"), "-1");
  EXPECT_EQ(value_of("1/0"), "none");
  EXPECT_EQ(value_of("0^0"), "none");
  EXPECT_EQ(value_of("\\sqrt2"), "none");
  EXPECT_EQ(value_of("9^{9^9}"), "none");
  EXPECT_EQ(value_of("1001!"), "none");
}

TEST(NormalForm, EqualIfAndOnlyIfTheDifferenceHasNoTerms) {
  const auto same = [](std::string_view left, std::string_view right) {
    Budget budget;
    const auto one = normal_form(tree(left), budget);
    const auto other = normal_form(tree(right), budget);
    return one && other ? same_quotient(*one, *other, budget) : std::nullopt;
  };
  EXPECT_EQ(same("\\sqrt{12}", "2\\sqrt3"), true);
  EXPECT_EQ(same("\\sqrt{12}", "3\\sqrt2"), false);
  EXPECT_EQ(same("\\sqrt2+\\sqrt3", "\\sqrt5"), false);
  EXPECT_EQ(same("(\\sqrt2+\\sqrt3)^2", "5+2\\sqrt6"), true);
  EXPECT_EQ(same("\\frac{1}{\\sqrt[3]{2}}", "\\frac{\\sqrt[3]{4}}{2}"), true);
  EXPECT_EQ(same("\\frac{x^3-1}{x-1}", "x^2+x+1"), true);
  EXPECT_EQ(same("\\pi^2 e", "e \\pi \\pi"), true);
  EXPECT_EQ(same("\\sin x", "\\sin x"), std::nullopt);
  EXPECT_EQ(same("\\sqrt{x}", "\\sqrt{x}"), std::nullopt);
  EXPECT_EQ(same("\\sqrt{1+\\sqrt2}", "1"), std::nullopt);
}

TEST(Evaluate, ValuesAreFixedByNameAndPoint) {
  Budget budget;
  for (unsigned point = 0; point < kPoints; ++point) {
    const Value x = value_at(tree("x"), point, budget);
    EXPECT_TRUE(agree(x, value_at(tree("x+y-y"), point, budget)));
    EXPECT_FALSE(agree(x, value_at(tree("y"), point, budget)));
    EXPECT_TRUE(point >= kPositivePoints || x.number.re.sign() > 0);
    EXPECT_FALSE(agree(x, value_at(tree("x + 10^{-50}"), point, budget)));
  }
  EXPECT_FALSE(agree(value_at(tree("x"), 0, budget), value_at(tree("x"), 1, budget)));
}

TEST(Evaluate, KnownValues) {
  Budget budget;
  const auto equal = [&](std::string_view left, std::string_view right) {
    return agree(value_at(tree(left), 0, budget), value_at(tree(right), 0, budget));
  };
  EXPECT_TRUE(equal("\\sin\\frac{\\pi}{6}", "\\frac12"));
  EXPECT_TRUE(equal("\\cos(2i)", "\\cosh 2"));
  EXPECT_TRUE(equal("\\sin(i)", "i \\sinh 1"));
  EXPECT_TRUE(equal("e^{i\\pi}", "-1"));
  EXPECT_TRUE(equal("i^i", "e^{-\\pi/2}"));
  EXPECT_TRUE(equal("\\ln(-1)", "i\\pi"));
  EXPECT_TRUE(equal("|3+4i|", "5"));
  EXPECT_TRUE(equal("\\log_2 10 \\cdot \\log_{10} 2", "1"));
  EXPECT_TRUE(equal("\\arccos 0 + \\arccot 1", "\\frac{3\\pi}{4}"));
  EXPECT_TRUE(equal("\\sec^2 1 - \\tan^2 1", "1"));
  EXPECT_TRUE(equal("\\coth 1 \\tanh 1", "1"));
  EXPECT_FALSE(equal("\\frac{1}{\\sin \\pi}", "1"));
  EXPECT_FALSE(value_at(tree("\\frac{1}{\\sin \\pi}"), 0, budget).number.is_tame());
  EXPECT_FALSE(value_at(tree("\\sin 10^{4000}"), 0, budget).number.is_tame());
}

TEST(Parser, RefusesWhatItWouldHaveToGuess) {
  for (const char* text : {"",
                           "+",
                           "1 +",
                           "(1",
                           "1)",
                           "{",
                           "\\frac{1}",
                           "3 4",
                           "x 2",
                           "1...9",
                           "\\ldots",
                           "(1,2",
                           "|1",
                           "\\foo",
                           "\\int x",
                           "1 \\pmod 3",
                           "\\begin{pmatrix}1&2\\\\3\\end{pmatrix}",
                           "\\begin{cases}1\\end{cases}",
                           "\\begin{pmatrix}1\\end{bmatrix}",
                           "x_",
                           "2^",
                           "_8",
                           "#",
                           "(5]"}) {
    EXPECT_THROW(tree(text), Unreadable) << text;
  }
}

}  // namespace
}  // namespace routeopd::grade::math
