// What is read as the answer of a response, and when it is right.
//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/answer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace routeopd::grade {
namespace {

struct Reading {
  std::string response;
  std::string extracted;
};

TEST(Answer, IsReadAfterThePhraseOrInTheLastBox) {
  const Reading readings[] = {
      // the phrase
      {"The final answer is 42.", "42"},
      {"The final answer is 42", "42"},
      {"the FINAL Answer Is 42", "42"},
      {"The final answer is: 42", "42"},
      {"The final answer is : $42$.", "42"},
      {"The final answer is $42.$", "42"},
      {"The final answer is $$ 42 $$ .", "42"},
      {"The final answer is 42. I hope it is correct.", "42"},
      {"The final answer is 3.14. Done.", "3.14"},
      {"The final answer is x = 5\nand more", "x = 5"},
      {"The final answer is x = 5\r\nand more", "x = 5"},
      {"The final answer is:\n\n42\nand more", "42"},
      {"The final answer is:\n$$\n42\n$$", "42"},
      {"The final answer is 10:30.", "10:30"},
      {"The final answer is 1. No, the final answer is 2.", "2"},
      {"final answer is\tten", "ten"},
      {"The final answer is 4, not \\{5\\}", "4, not \\{5\\}"},
      // a box after the phrase, and elsewhere
      {"The final answer is $\\boxed{42}$.", "42"},
      {"The final answer is\\boxed{42}", "42"},
      {"The final answer is thus \\boxed{ \\frac{1}{2} } units", "\\frac{1}{2}"},
      {"The final answer is \\boxed{\\text{Dr. No}}. Yes.", "\\text{Dr. No}"},
      {"The final answer is \\boxed{a\nb}", "a\nb"},
      {"The final answer is 7.\nEarlier we had \\boxed{8}.", "7"},
      {"We had \\boxed{8}. The final answer is 7.", "7"},
      {"The final answer is \\boxed{9", "\\boxed{9"},
      // the last box
      {"so \\boxed{1} and then \\boxed{2}!", "2"},
      {"\\boxed{\\boxed{5}}", "5"},
      {"\\boxed{\\frac{1}{\\sqrt{2}}}", "\\frac{1}{\\sqrt{2}}"},
      {"\\boxed{\\{1, 2\\}}", "\\{1, 2\\}"},
      {"\\boxed{\\left\\{1\\right.}", "\\left\\{1\\right"},
      {"\\boxed{a\\\\{b}}", "a\\\\{b}"},
      {"\\\\boxed{6}", "6"},
      {"\\boxed{3} and \\boxed{4", "3"},
      {"} \\boxed{3} }", "3"},
      {"{ \\boxed{3}", "3"},
      {"\\boxed{$12.$}", "12"},
      {"\\boxed{é}", "é"},
      // a phrase that says nothing
      {"\\boxed{3} is what the final answer is", "3"},
      {"\\boxed{3} is what the final answer is.", "3"},
      {"\\boxed{3}; the final answer isn't 4", "3"},
      // no answer
      {"", ""},
      {"final answer is", ""},
      {"final answer i", ""},
      {"The final answer is $$.", ""},
      {"\\boxed{", ""},
      {"\\boxed{}", ""},
      {"\\boxed{ $ }", ""},
      {"\\boxed 5", ""},
      {"\\Boxed{5}", ""},
      {"the answer is 5", ""},
      {"\\", ""},
      {"\\boxed{5\\", ""},
  };
  for (const auto& [response, extracted] : readings) {
    const Grade grade = grade_response(response, "no such answer");
    EXPECT_EQ(grade.extracted, extracted) << response;
    EXPECT_EQ(grade.format_ok, !extracted.empty()) << response;
    EXPECT_FALSE(grade.correct) << response;
  }
}

struct Pair {
  std::string given;
  std::string expected;
  bool same;
};

TEST(Answer, WholeNumbersAreComparedByValueAllElseAsText) {
  const std::string long_number(5000, '9');
  const Pair pairs[] = {
      {"42", "42", true},
      {"042", "42", true},
      {"+42", "42", true},
      {"-42", "42", false},
      {"-42", "-042", true},
      {"\xE2\x88\x92"
       "42",
       "-42", true},
      {"-0", "0", true},
      {"000", "0", true},
      {"1,234", "1234", true},
      {"1,234,567", "1234567", true},
      {"12,34", "1234", false},
      {"1,2345", "12345", false},
      {"1234,567", "1234567", false},
      {",123", "123", false},
      {"1,234,", "1234", false},
      {"1,,34", "134", false},
      {"1, 234", "1234", false},
      {"42.0", "42", false},
      {"42.", "42", true},
      {"4 2", "42", false},
      {"- 42", "-42", false},
      {"--42", "42", false},
      {"-", "-", true},
      {"+", "0", false},
      {" $42$ ", "42", true},
      {"42", " $42$ ", true},
      {"x", "x", true},
      {"x", "X", false},
      {"\\frac12", "\\frac12", true},
      {"1/2", "0.5", false},
      {long_number, "0" + long_number, true},
      {long_number, long_number + "9", false},
      {"18446744073709551617", "1", false},
  };
  for (const auto& [given, expected, same] : pairs) {
    EXPECT_EQ(grade_response("\\boxed{" + given + "}", expected).correct, same) << given << " / " << expected;
    EXPECT_EQ(answer_key(given) == answer_key(expected), same) << given << " / " << expected;
  }
  EXPECT_EQ(answer_key(" -01,050."), "-1050");
}

TEST(Answer, NothingIsNeverRight) {
  EXPECT_FALSE(grade_response("I do not know", "").correct);
  EXPECT_FALSE(grade_response("\\boxed{}", "").correct);
}

// Linear time needs 0.2 s here, a few times that under sanitizers; quadratic time would need minutes.
TEST(Answer, HostileResponsesTakeLinearTimeAndNoCallStack) {
  const auto repeated = [](std::string_view piece) {
    std::string text;
    while (text.size() < 1'000'000) text += piece;
    return text;
  };
  const auto start = std::chrono::steady_clock::now();
  for (const char* piece : {"{", "}", "{}", "\\", "\\boxed{", "final answer is ", "final answer is \\boxed{",
                            "$", ".", "\n", "final answer i", "1,"}) {
    grade_response(repeated(piece), "1");
  }
  const std::string deep = repeated("{");
  const Grade grade = grade_response("\\boxed{" + deep + std::string(deep.size(), '}') + "}", "1");
  EXPECT_EQ(grade.extracted.size(), 2 * deep.size());
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 5.0);
}

}  // namespace
}  // namespace routeopd::grade
