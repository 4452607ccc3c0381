// Where the answer of a response is found.
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

TEST(Extract, FollowsTheLadder) {
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
      {"The final answer is \\[\n\\begin{pmatrix} 1 \\\\\n2 \\end{pmatrix}\n\\]",
       "\\begin{pmatrix} 1 \\\\\n2 \\end{pmatrix}"},
      {"The final answer is \\(\\frac{1}{2}\\), since it must be.", "\\frac{1}{2}"},
      {"The final answer is $x = 5$ because nothing else works.", "x = 5"},
      {"The final answer is $5.", "5"},
      {"The final answer is $3$ or $4$.", "3$ or $4"},
      {"The final answer is 10:30.", "10:30"},
      {"The final answer is 1. No, the final answer is 2.", "2"},
      {"final answer is\tten", "ten"},
      {"The final answer is 4, not \\{5\\}", "4"},
      {"**Final Answer:** 12", "12"},
      {"**Final Answer**: 12", "12"},
      {"Final answer: $\\frac{3}{4}$", "\\frac{3}{4}"},
      {"**The final answer is 12**", "12"},
      // a box after the phrase, and elsewhere
      {"The final answer is $\\boxed{42}$.", "42"},
      {"The final answer is\\boxed{42}", "42"},
      {"The final answer is thus \\boxed{ \\frac{1}{2} } units", "\\frac{1}{2}"},
      {"The final answer is \\boxed{\\text{Dr. No}}. Yes.", "\\text{Dr. No}"},
      {"The final answer is \\boxed{a\nb}", "a\nb"},
      {"The final answer is \\boxed{1} and \\boxed{2}.", "1, 2"},
      {"The final answer is 7.\nSo: \\boxed{8}.", "8"},
      {"They say the final answer is $m+n$. We get\n\\[\\boxed{113}\\]", "113"},
      {"First, the final answer is 6 times something. We get \\boxed{42}.", "42"},
      {"\\boxed{11}\n\nThe final answer is 12 and we are done.", "12"},
      // the mathematics that a sentence begins with
      {"The final answer is 42 because 6 times 7 is 42.", "42"},
      {"The final answer is 42, not 24.", "42"},
      {"The answer is 42, since 6*7=42.", "42"},
      {"So the answer is 42 (since 6*7=42).", "42"},
      {"Final answer: 12 (Option B)", "12"},
      {"The answer is C because 12 is even.", "C"},
      {"The final answer is a circle.", "a circle"},
      {"The final answer is therefore\n\n\\[\n42\n\\]", "42"},
      {"**Final Answer**\n42", "42"},
      {"### Final answer\n$$42$$", "42"},
      {"We had \\boxed{8}. The final answer is 7.", "7"},
      {"**Final Answer**\n\n\\[ \\boxed{12} \\]", "12"},
      // words after the phrase are less than a box
      {"I must see that the final answer is correct. It is \\boxed{5}.", "5"},
      {"\\boxed{3} is what the final answer is meant to be", "3"},
      // the last box
      {"so \\boxed{1} and then \\boxed{2}!", "2"},
      {"\\boxed{1} and \\boxed{2}", "1, 2"},
      {"$\\boxed{1}$, $\\boxed{2}$ and $\\boxed{3}$", "1, 2, 3"},
      {"\\boxed{x=1} \\text{ or } \\boxed{x=2}", "x=1, x=2"},
      {"\\boxed{1}. \\boxed{2}", "2"},
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
      {"\\boxed{12\\ }", "12"},
      {"\\boxed{12.}", "12"},
      {"\\boxed {12}", "12"},
      {"\\boxed 5", "5"},
      {"\\boxed5$", "5"},
      {"\\boxed{é}", "é"},
      {"\\fbox{7}", "7"},
      // a phrase that says nothing
      {"\\boxed{3} is what the final answer is", "3"},
      {"\\boxed{3} is what the final answer is.", "3"},
      {"\\boxed{3}; the final answer isn't 4", "3"},
      // the weaker phrase
      {"the answer is 5", "5"},
      {"Answer: 12", "12"},
      {"Answer:\n12", "12"},
      {"### Answer\n\n$$\\boxed{3}$$", "3"},
      {"The answer is $5$. So \\boxed{6}.", "6"},
      {"Answer: A", "A"},
      // outside of thoughts
      {"<think>\\boxed{1}</think>\nIt is \\boxed{2}.", "2"},
      {"<think>the final answer is 1</think> \\boxed{2}", "2"},
      {"<think>\\boxed{1}</think> I do not know.", ""},
      {"<think>The first idea is \\boxed{1}.</think> I do not know.", ""},
      {"\\boxed{1} <think>or \\boxed{2}", "1"},
      {"<think>so</think> \\boxed{1} <think>or \\boxed{2}", "1"},
      {"so</think> \\boxed{1}", "1"},
      {"<think>so \\boxed{1}", ""},
      {"<think>so \\boxed{1}</think> and <think> thus \\boxed{2}", ""},
      // the last phrase that an answer follows
      {"The answer is 5. I hope that the answer is correct.", "5"},
      {"The final answer is 5. Let us see whether the final answer is right.", "5"},
      {"The answer is 6, so the answer is not 5.", "6"},
      {"The answer is 5. The answer is Evelyn.", "Evelyn"},
      {"\\boxed{5}; the answer is never negative", "5"},
      {"\\boxed{\\text{your answer}}? The answer is 4.", "4"},
      // names and short phrases
      {"The answer is Evelyn.", "Evelyn"},
      {"The answer is Evelyn, since nobody else ran.", "Evelyn"},
      {"The answer is no, because 5 is prime.", "no"},
      {"Answer: No solution", "No solution"},
      {"The answer is: not possible.", "not possible"},
      {"\\boxed{\\text{right triangle}}", "\\text{right triangle}"},
      {"\\boxed{\\text{There are no real solutions}}", "\\text{There are no real solutions}"},
      {"\\boxed{\\text{the set of all real numbers}}", "\\text{the set of all real numbers}"},
      {"\\boxed{无解}", "无解"},
      {"The final answer is \\boxed{1}.\nOr \\boxed{?}", "1"},
      // mathematics that cannot be compared, or has words after it
      {"\\boxed{\\begin{cases} 1 & \\text{if } n \\text{ is even} \\\\ 0 & \\text{if odd} \\end{cases}}",
       "\\begin{cases} 1 & \\text{if } n \\text{ is even} \\\\ 0 & \\text{if odd} \\end{cases}"},
      {"\\boxed{x \\equiv 3 \\pmod{7}}", "x \\equiv 3 \\pmod{7}"},
      {"\\boxed{\\begin{cases} x & \\text{if } x>0 \\\\ -x & \\text{otherwise} \\end{cases}}",
       "\\begin{cases} x & \\text{if } x>0 \\\\ -x & \\text{otherwise} \\end{cases}"},
      {"\\boxed{42 \\text{ because we know that } x>0}", "42 \\text{ because we know that } x>0"},
      // words that are no answer
      {"The answer is unclear to me at this point.", ""},
      {"So the answer is not an integer, which contradicts", ""},
      {"The answer is unclear.", ""},
      {"I must check that the final answer is right.", ""},
      {"the answer is as above", ""},
      {"\\boxed{\\text{I do not know}}", ""},
      {"\\boxed{\\text{your answer}}", ""},
      {"Answer: \\boxed{$Answer}", ""},
      {"\\boxed{\\text{the sum of the first five primes}}", ""},
      {"the answer is never negative", ""},
      {"\\boxed{\\frac{\\text{who knows}}{}}", ""},
      {"\\boxed{?}", ""},
      {"\\boxed{...}", ""},
      {"\\boxed{\\ldots}", ""},
      {"The final answer is \\frac{1}{2", ""},
      // no answer
      {"", ""},
      {"final answer is", ""},
      {"final answer i", ""},
      {"The final answer is $$.", ""},
      {"The final answer is \\boxed{9", ""},
      {"\\boxed{", ""},
      {"\\boxed{}", ""},
      {"\\boxed{ $ }", ""},
      {"\\boxed x", ""},
      {"\\Boxed{5}", ""},
      {"so we get 5", ""},
      {"42", ""},
      {"my answers: 5", ""},
      {"\\", ""},
      {"\\boxed{5\\", ""},
  };
  for (const auto& [response, extracted] : readings) {
    const Extracted found = extracted_answer(response);
    EXPECT_EQ(found.readable, !extracted.empty()) << response;
    if (found.readable) {
      EXPECT_EQ(found.text, extracted) << response;
    }
    const Grade grade = grade_response(response, "\\text{another}");
    EXPECT_EQ(grade.extracted, extracted) << response;
    EXPECT_EQ(grade.format_ok, !extracted.empty()) << response;
    EXPECT_FALSE(grade.correct) << response;
  }
}

TEST(Extract, AThoughtThatThePromptLeftOpenHoldsNoAnswer) {
  const Reading readings[] = {
      {"so \\boxed{1}", ""},
      {"the final answer is 1", ""},
      {"", ""},
      {"so \\boxed{1}</think> I do not know.", ""},
      {"so \\boxed{1}</think> It is \\boxed{2}.", "2"},
      {"</think>The answer is 3.", "3"},
      {"so</think> \\boxed{1} <think> \\boxed{2}", "1"},
  };
  for (const auto& [response, extracted] : readings) {
    const Grade grade = grade_response(response, "1", /*in_thought=*/true);
    EXPECT_EQ(grade.extracted, extracted) << response;
    EXPECT_EQ(grade.format_ok, !extracted.empty()) << response;
    EXPECT_EQ(grade.correct, extracted == "1") << response;
  }
}

TEST(Extract, APromptOpensAThoughtAtItsEndAlone) {
  for (const char* prompt : {"<think>", "<|assistant|><think>\n", "a</think><think> \n\n"})
    EXPECT_TRUE(opens_thought(prompt)) << prompt;
  for (const char* prompt : {"", "<think>\n\n</think>\n\n", "What is <think>?", "</think>", "think>"})
    EXPECT_FALSE(opens_thought(prompt)) << prompt;
}

// Linear time needs 0.3 s here, a few times that under sanitizers; quadratic time would need minutes.
TEST(Extract, HostileResponsesTakeLinearTimeAndNoCallStack) {
  const auto repeated = [](std::string_view piece) {
    std::string text;
    while (text.size() < 1'000'000) text += piece;
    return text;
  };
  const auto start = std::chrono::steady_clock::now();
  for (const char* piece : {"{",
                            "}",
                            "{}",
                            "\\",
                            "\\boxed{",
                            "\\boxed ",
                            "\\boxed",
                            "\\fbox{1},",
                            "final answer is ",
                            "answer: ",
                            "final answer is \\boxed{",
                            "final answer is $",
                            "$",
                            "\\(",
                            ".",
                            "\n",
                            "final answer i",
                            "1,",
                            "**",
                            "\\ ",
                            "</think>",
                            "<think>",
                            "answer is not ",
                            "the answer is correct, ",
                            "word "}) {
    grade_response(repeated(piece), "1");
    grade_response("final answer is " + repeated(piece), "1");
  }
  const std::string deep = repeated("{");
  const Grade grade = grade_response("\\boxed{" + deep + "1" + std::string(deep.size(), '}') + "}", "1");
  EXPECT_EQ(grade.extracted.size(), 2 * deep.size() + 1);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 10.0);
}

}  // namespace
}  // namespace routeopd::grade
