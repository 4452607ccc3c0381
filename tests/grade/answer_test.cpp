// When an answer is right. Every rule of docs/grading.md has its examples there, which
// grading_docs_test.cpp runs; here are the cases at the edges.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/answer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <vector>

namespace routeopd::grade {
namespace {

struct Pair {
  std::string given;
  std::string wanted;
  bool same;
};

template <std::size_t N>
void check(const Pair (&pairs)[N]) {
  for (const auto& [given, wanted, same] : pairs) {
    EXPECT_EQ(grade_response("\\boxed{" + given + "}", wanted).correct, same) << given << " for " << wanted;
    EXPECT_EQ(equivalent(Answer(wanted), Answer(given)), same) << given << " for " << wanted;
  }
}

TEST(Answer, WholeNumbers) {
  const std::string long_number(5000, '9');
  check({
      {"42", "42", true},
      {"042", "42", true},
      {"+42", "42", true},
      {"-42", "42", false},
      {"-42", "-042", true},
      {"−42", "-42", true},
      {"-0", "0", true},
      {"000", "0", true},
      {"1,234", "1234", true},
      {"1,234,567", "1234567", true},
      {"12,34", "1234", false},
      {"1,2345", "12345", false},
      {"1234,567", "1234567", false},
      {",123", "123", false},
      {"1,,34", "134", false},
      {"1, 234", "1234", false},
      {"42.0", "42", true},
      {"42.", "42", true},
      {"4 2", "42", false},
      {"- 42", "-42", true},
      {"--42", "42", true},
      {"-", "-", true},
      {"+", "0", false},
      {" $42$ ", "42", true},
      {"42", " $42$ ", true},
      {"x", "x", true},
      {"x", "X", false},
      {"18446744073709551617", "1", false},
      {"2^{64}+1", "18446744073709551617", true},
      // longer than anything that is read as mathematics
      {long_number, "0" + long_number, true},
      {long_number, long_number + "9", false},
  });
}

TEST(Answer, DecimalsStandForWhatTheyWereRoundedFrom) {
  check({
      {"0.5", "\\frac12", true},
      {"0.333", "\\frac13", false},
      {"0.33333", "\\frac13", false},
      {"0.333333", "\\frac13", true},
      {"0.333334", "\\frac13", true},  // rounded up
      {"0.333335", "\\frac13", false},
      {"\\frac13", "0.333333", true},
      {"3.14159", "\\pi", false},
      {"3.141592", "\\pi", true},
      {"3.141593", "\\pi", true},
      {"3.141594", "\\pi", false},
      {"-3.141593", "\\pi", false},
      {"1.4142135623730951", "\\sqrt2", true},  // a double, printed
      {"1.4142135623830951", "\\sqrt2", false},
      {"0.000067", "0.0000672", false},  // six places, two digits
      {"0.0000670", "0.0000672", false},
      {"1.2345679", "1.23456789", true},
      {"1.23456789", "1.2345679", true},
      {"1.2345678", "1.23456789", true},
      {"1.2345677", "1.23456789", false},
      {"2.0000001", "2", false},
      {"0.333333x", "\\frac13 x", false},
  });
}

TEST(Answer, ExpressionsByNormalFormOrByValue) {
  check({
      {"(a+b+c)^{20}", "(c+b+a)^{20}", true},
      {"(a+b+c)^{40}", "(c+b+a)^{40}", true},  // by value: 861 terms
      {"(a+b+c)^{40}", "(c+b+a)^{39}(a+b-c)", false},
      {"\\frac{1}{x} + \\frac{1}{y}", "\\frac{x+y}{xy}", true},
      {"\\frac{1}{1+\\sqrt2+\\sqrt3}", "\\frac{2+\\sqrt2-\\sqrt6}{4}", true},
      {"\\frac{1}{1+\\sqrt2+\\sqrt3}", "\\frac{2-\\sqrt2+\\sqrt6}{4}", false},
      {"\\sqrt[3]{16}\\cdot\\sqrt[6]{4}", "4 \\cdot 2^{-1/3} \\cdot 2^{1}", false},
      {"\\sqrt[3]{16}", "2 \\cdot 2^{1/3}", true},
      {"\\frac{1}{i}", "-i", true},
      {"(1+i)^4", "-4", true},
      {"\\sqrt{-4}", "2i", true},
      {"e^{\\ln 5}", "5", true},
      {"\\sin 2x", "2 \\sin x \\cos x", true},
      {"\\sin 2x", "2 \\sin x", false},
      {"\\sin^{-1} 1", "\\frac{\\pi}{2}", true},
      {"\\arctan 1", "\\frac{\\pi}{4}", true},
      {"\\log 1000", "3", true},
      {"\\ln 8", "3 \\ln 2", true},
      {"\\tan 45^\\circ", "1", true},
      {"\\frac{1}{0}", "1", false},
      {"\\frac{1}{\\sqrt{2}^2 - 2}", "5", false},
      {"\\sqrt{x^2}", "x", false},
      {"|x|", "\\sqrt{x^2}", true},
      {"2 \\ln x", "\\ln x^2", false},  // the reference is defined for x < 0
      {"\\ln x^2", "2 \\ln x", true},
      {"2^{n}2^{n}", "4^n", true},
      {"\\frac{(n+1)!}{n!}", "n+1", false},  // n! of a variable has no value here
      {"x_1 + x_2", "x_2+x_1", true},
      {"x_1 + x_2", "x_1 + x_3", false},
      {"2 1/2", "\\frac52", true},
      {"2\\frac{3}{2}", "3", true},  // no mixed number
      {"1/2x", "\\frac{x}{2}", true},
      {"10^{1000}", "10^{1000}", true},
      {"10^{1000}+1", "10^{1000}", false},
      {"\\sqrt{10^{40}+1}", "10^{20}", false},
  });
}

TEST(Answer, SetsOfRealNumbers) {
  check({
      {"x>-3", "-2x<6", true},
      {"\\frac{x}{-2} \\le \\sqrt2", "x \\ge -2\\sqrt2", true},
      {"(3-\\pi)x > 3-\\pi", "x<1", true},  // a negative factor that is no rational
      {"(3-\\pi)x > 3-\\pi", "x>1", false},
      {"2x-x<2", "(-\\infty,2)", true},
      {"-2x<6", "(-3,\\infty)", true},
      {"-2x<6", "(-\\infty,-3)", false},
      {"x>2", "(2,\\infty)", true},
      {"x-x<2", "(-\\infty,2)", false},
      {"x-x<2", "\\mathbb{R}", false},  // no condition on x
      {"x^2<4", "(-2,2)", false},       // not solved
      {"xy<4", "(-\\infty,4)", false},
      {"ax<2", "x<\\frac2a", false},  // the sign of a is not known
      {"-\\infty<x<2", "x<2", true},
      {"-\\infty<x<2", "(-\\infty,2)", true},
      {"[1,2]\\setminus\\{1,2\\}", "(1,2)", true},
      {"[1,2]\\setminus\\{1\\}", "(1,2)", false},
      {"\\mathbb{R}\\setminus\\{\\pm2\\}", "(-\\infty,-2)\\cup(-2,2)\\cup(2,\\infty)", true},
      {"\\mathbb{R}\\setminus\\{2\\}\\setminus\\{3\\}", "\\mathbb{R}\\setminus\\{3,2\\}", true},
      {"\\mathbb{R}\\setminus\\{\\sqrt4\\}", "\\mathbb{R}\\setminus\\{2\\}", true},
      {"\\{1,2,3\\}\\setminus\\{3\\}", "\\{1,2\\}", true},
      {"\\mathbb{R}\\setminus\\{i\\}", "\\mathbb{R}", false},
      {"\\mathbb{R}\\setminus\\{\\frac10\\}", "\\mathbb{R}", false},
      {"\\mathbb{R}\\setminus\\{\\infty\\}", "\\mathbb{R}", false},
      {"\\mathbb{R}\\setminus\\mathbb{R}", "\\emptyset", true},
      {"(3,1)\\cup(1,5)", "(1,5)", false},  // no interval
      {"(-\\infty,2]\\cup[2,\\infty)", "\\mathbb{R}", true},
      {"(-\\infty,2]\\cup[2,\\infty)", "(-\\infty,3)\\cup[3,\\infty)", true},
      {"x<2 \\text{ or } x>2", "\\mathbb{R}\\setminus\\{2\\}", true},
      {"x<2 \\lor x>2", "(-\\infty,2)\\cup(2,\\infty)", true},
      {"x<2 \\text{ and } x>2", "\\mathbb{R}\\setminus\\{2\\}", false},
      {"x<3 \\text{ and } x>2", "\\mathbb{R}", false},
      {"x<3, x>2", "(-\\infty,2]\\cup[2,\\infty)", false},  // a comma leaves it open
      {"x \\ne 2", "\\{x \\mid x \\ne 2\\}", true},
      {"y \\ne 2", "\\{x \\mid x \\ne 2\\}", false},
      {"x \\ne 2", "(2,\\infty)", false},
      {"\\{x \\mid x=2 \\text{ or } x=3\\}", "\\{2,3\\}", true},
      {"\\{x \\mid x=2, x=3\\}", "\\{2,3\\}", false},
      {"\\{x \\mid x=2, x=3\\}", "\\emptyset", true},
      {"\\{x\\in(0,5) \\mid x>2\\}", "(2,5)", true},
      {"\\{x\\in(0,5) \\mid x>2\\}", "(2,\\infty)", false},
      {"\\{x \\mid x>a\\}", "\\{a \\mid a>x\\}", false},  // both are bound and free
      {"\\{a \\mid a>b\\}", "\\{x \\mid x>b\\}", true},
      {"\\{x \\mid x^2<4\\}", "\\{y : y^2-4<0\\}", true},
      {"\\{x \\mid |x|<4\\}", "\\{y \\mid |y|<4\\}", true},
      {"\\{x \\mid x^2<4, x^3>1\\}", "\\{x \\mid x^3>1 \\text{ and } x^2<4\\}", true},
      {"\\{x \\mid x^2<4, x^3>1\\}", "\\{x \\mid x^3>1 \\text{ or } x^2<4\\}", false},
      {"\\{x \\mid x^2<4, x^3>1\\}", "\\{x \\mid x^2<4\\}", false},
      {"\\{(x,y) \\mid x<y\\}", "\\{(y,x) \\mid y<x\\}", true},
      {"\\{(x,y) \\mid x<y\\}", "\\{(y,x) \\mid x<y\\}", false},
      {"\\{(x,y) \\mid x<y\\}", "\\{x \\mid x<y\\}", false},
      {"\\{x \\mid 2\\}", "2", false},  // no condition
      {"\\{x \\mid x>2", "(2,\\infty)", false},
      {"\\{n\\in\\mathbb{Z} \\mid n>2\\}", "(2,\\infty)", false},
      {"\\{n\\in\\mathbb{Z} \\mid n>2\\}", "\\{n \\in \\mathbb{Z} \\mid n > 2\\}", true},
      {"1 - 2", "-1", true},  // no difference of sets
  });
}

TEST(Answer, TextAndChoices) {
  check({
      {"\\text{Evelyn}", "\\text{Evelyn}", true},
      {"evelyn", "\\text{Evelyn}", true},
      {"\\text{Eve lyn}", "\\text{Evelyn}", true},
      {"\\text{Eve}", "\\text{Evelyn}", false},
      {"C", "\\text{(C)}", true},
      {"\\text{(C)} \\ 12", "C", true},
      {"\\text{(C) } 12", "12", true},
      {"(C)\\ 12", "12", true},
      {"C. 12", "12", true},
      {"\\text{Bob}", "B", false},
      {"\\text{Bob}", "\\text{Bill}", false},
      {"B", "A", false},
      {"(B)(x+1)", "x+1", false},
      {"", "", false},
  });
}

TEST(Answer, AChoiceThatBreaksOffIsNone) {
  for (const char* text :
       {"\\textbf{(B)~", "\\textbf{(B)", "\\textbf{(B", "\\textbf{(", "\\textbf{", "\\text{(B) 12", "(B"}) {
    EXPECT_FALSE(equivalent(Answer("B"), Answer(text))) << text;
  }
}

// Of a number without braces a command takes the first digit, where the number is plain digits.
TEST(Answer, AnArgumentWithoutBracesIsADigitOrAWholeNumber) {
  EXPECT_TRUE(equivalent(Answer("10"), Answer("\\sqrt{25}2")));
  EXPECT_TRUE(equivalent(Answer("1.5"), Answer("\\frac96")));
  EXPECT_TRUE(equivalent(Answer("3"), Answer("\\sqrt9e0")));
  EXPECT_TRUE(equivalent(Answer("20"), Answer("\\sqrt0.4e3")));
  EXPECT_FALSE(equivalent(Answer("3"), Answer("87{sqrt0.5e8")));
}

TEST(Answer, NothingIsNeverRight) {
  EXPECT_FALSE(grade_response("I do not know", "").correct);
  EXPECT_FALSE(grade_response("\\boxed{}", "").correct);
  EXPECT_FALSE(grade_response("\\boxed{.}", ".").correct);
  EXPECT_FALSE(grade_response("\\boxed{ }", " ").format_ok);
}

// Correct, else format, else content: never two of them.
TEST(Answer, AWrongAnswerThatCanBeReadIsNoFormatError) {
  const Grade right = grade_response("\\boxed{2}", "2");
  EXPECT_TRUE(right.correct && right.format_ok);
  const Grade wrong = grade_response("\\boxed{3}", "2");
  EXPECT_TRUE(!wrong.correct && wrong.format_ok);
  const Grade odd = grade_response("\\boxed{\\frac{2}{\\text{apples}}}", "2");
  EXPECT_TRUE(!odd.correct && odd.format_ok);
  const Grade malformed = grade_response("\\boxed{\\frac{\\text{who knows}}{}}", "2");
  EXPECT_TRUE(!malformed.correct && !malformed.format_ok);
  const Grade unread = grade_response("It is 2 but \\boxed{2", "2");
  EXPECT_TRUE(!unread.correct && !unread.format_ok);
}

// What no rule would take for an answer is one where it is the known one.
TEST(Answer, TheKnownAnswerCanAlwaysBeRead) {
  const char* const golds[] = {"-", ">", "\\ldots", "\\text{unclear}",
                               "\\text{the answer that we were given above}"};
  for (const char* gold : golds) {
    const std::string response = fmt::format("\\boxed{{{}}}", gold);
    const Grade right = grade_response(response, gold);
    EXPECT_TRUE(right.correct && right.format_ok) << gold;
    EXPECT_EQ(right.extracted, gold);
    const Grade wrong = grade_response(response, "2");
    EXPECT_FALSE(wrong.correct || wrong.format_ok) << gold;
    EXPECT_EQ(wrong.extracted, "");
  }
}

TEST(Answer, KeysOfEqualValuesAreEqual) {
  for (const char* half : {"0.5", "1/2", "\\frac{2}{4}", ".50", "\\$0.5", "\\sqrt{\\frac14}", "50\\%"}) {
    EXPECT_EQ(Answer(half).key(), Answer("\\frac12").key()) << half;
  }
  EXPECT_NE(Answer("1").key(), Answer("-1").key());
  EXPECT_NE(Answer("x").key(), Answer("y").key());
  EXPECT_NE(Answer("1,2").key(), Answer("(1,2)").key());
}

// Whatever the input: the budget of a comparison is a tenth of a second or so; the bound here leaves room for
// sanitizers and busy machines. An unbounded one would take minutes, gigabytes or the stack.
TEST(Answer, CostsAreBounded) {
  const auto repeated = [](std::string_view piece, std::size_t size) {
    std::string text;
    while (text.size() + piece.size() <= size) text += piece;
    return text;
  };
  std::vector<std::string> hostile = {
      "9^{9^{9}}",
      "9^{9^{9^{9^{9}}}}",
      "(9^{999})^{999}",
      "99999!",
      "((9!)!)!",
      "\\binom{999999}{5000}",
      "(a+b+c+d+e+f+g+h)^{500}",
      "(a+b)^{512}(c+d)^{512}",
      "(\\sqrt2+\\sqrt3+\\sqrt5+\\sqrt7+\\sqrt{11}+\\sqrt{13})^{64}",
      "\\sqrt{4611686014132420609}",  // the square of the largest prime below 2^31
      "\\sqrt{9223372036854775783}",
      "\\sin(10^{4000})",
      "\\sin(e^{e^{10}})",
      "e^{e^{e^{e^{5}}}}",
      "x^{x^{x^{x^{x^{x}}}}}",
      "2^{-9223372036854775808}",
      "1e999",
  };
  for (const char* piece : {"(",
                            "{",
                            "[",
                            "\\{",
                            "|",
                            "\\frac{",
                            "\\frac1",
                            "\\sqrt{",
                            "\\sqrt1",
                            "-",
                            "!",
                            "%",
                            "^",
                            "x^",
                            "x_",
                            "1+",
                            "1,",
                            "\\sin ",
                            "\\pm 1+",
                            "(x+1)",
                            "\\frac{1}{x}+",
                            "\\sin x+",
                            "1/7^{99}+",
                            "\\text{",
                            "\\begin{pmatrix}",
                            "1\\\\",
                            "x'",
                            "\\cup",
                            "=",
                            "1<",
                            "√",
                            "½",
                            "\xFF"}) {
    for (const std::size_t size : {std::size_t{200}, std::size_t{4096}, std::size_t{100'000}}) {
      hostile.push_back(repeated(piece, size));
      hostile.push_back(hostile.back() + "1");
    }
  }
  hostile.push_back(repeated("(", 2000) + "1" + repeated(")", 2000));
  hostile.push_back(repeated("{", 50'000) + "1" + repeated("}", 50'000));
  hostile.push_back(repeated("\\frac{1}{1+", 600) + "x" + repeated("}", 55));
  for (const std::string& one : hostile) {
    for (const std::string& other : {one, one + "+1", std::string("x+1"), "(" + one + ")"}) {
      const std::clock_t start = std::clock();  // of the processor: others may have it meanwhile
      equivalent(Answer(one), Answer(other));
      const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
      EXPECT_LT(seconds, 2.0) << one.substr(0, 60) << " / " << other.substr(0, 60);
    }
  }
}

}  // namespace
}  // namespace routeopd::grade
