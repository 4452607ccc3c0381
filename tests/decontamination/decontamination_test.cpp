// Normal forms and n-grams by hand, the table under many texts, and what a record is believed for. The
// command is held to a plain reference in tests/cli/decontaminate_test.py.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>

#include "routeopd/decontamination/decontaminate.h"
#include "routeopd/decontamination/gram_index.h"
#include "routeopd/decontamination/normal_text.h"
#include "routeopd/decontamination/record.h"
#include "testing_files.h"

namespace routeopd::decontamination {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(NormalText, IsPythons) {
  EXPECT_EQ(normal_text("  What is\t$x^2 + Y_1$?\n").text, "what is x2 y_1");
  EXPECT_EQ(normal_text("").text, "");
  EXPECT_EQ(normal_text(" . + ! ").text, "");
  EXPECT_EQ(normal_text("a . b").words.size(), 2U);
  EXPECT_EQ(normal_text("a\x1C"
                        "b")
                .text,
            "a b");                                                // U+001C separates in Python
  EXPECT_EQ(normal_text("ΌΔΟΣ ΣΑΣ").text, "όδος σας");             // final sigma
  EXPECT_EQ(normal_text("İ").text, "i");                           // i and a combining dot, no word character
  EXPECT_EQ(normal_text("x\xC2\xA0y\xE2\x80\x8Bz").text, "x yz");  // no-break space; zero-width space
  EXPECT_EQ(normal_text("½ ² Ⅷ").text, "½ ² ⅷ");                   // numeric is \w
  EXPECT_EQ(characters_of(normal_text("É ß")).slices.size(), 3U);
}

TEST(GramIndex, CountsDistinctGramsOfEachProblem) {
  const std::vector<std::string> problems = {"a b a b a b", "b c d", "a", "c d e f"};
  std::deque<NormalText> held;
  GramIndex index(2);
  for (const std::string& text : problems) {
    held.push_back(normal_text(text));
    index.add(held.back().text, words_of(held.back()));
  }
  EXPECT_EQ(index.grams_of(0), 2U);
  EXPECT_EQ(index.grams_of(2), 0U);
  for (int time = 0; time < 2; ++time) {  // a text asked twice has the same answer
    const NormalText row = normal_text("c d, c d a b");
    std::set<std::pair<std::uint32_t, std::uint32_t>> found;
    for (const GramIndex::Shared& shared : index.shared_with(row.text, words_of(row)))
      found.emplace(shared.problem, shared.grams);
    EXPECT_EQ(found, (std::set<std::pair<std::uint32_t, std::uint32_t>>{{0, 1}, {1, 1}, {3, 1}}));
  }
}

// Words that few problems have, half of them, all but one and all: each way to list a group of problems.
TEST(GramIndex, CountsAsSetsDo) {
  constexpr std::size_t kProblems = 9;
  std::vector<std::set<std::string>> words_of_problem(kProblems);
  std::deque<NormalText> held;
  GramIndex index(1);
  for (std::size_t problem = 0; problem < kProblems; ++problem) {
    std::string text;
    for (std::size_t have = 1; have <= kProblems; ++have) {  // word hNsM: N problems from the M-th on have it
      for (std::size_t start = 0; start < kProblems; ++start) {
        if ((problem + kProblems - start) % kProblems >= have) continue;
        const std::string word = fmt::format("h{}s{}", have, start);
        words_of_problem[problem].insert(word);
        text += " " + word;
      }
    }
    held.push_back(normal_text(text));
    index.add(held.back().text, words_of(held.back()));
  }
  for (std::size_t have = 1; have <= kProblems; ++have) {
    for (std::size_t other = 1; other <= kProblems; ++other) {
      const std::string one = fmt::format("h{}s{}", have, other - 1), two = fmt::format("h{}s2", other);
      const NormalText row = normal_text(one + " none " + two);
      std::map<std::uint32_t, std::size_t> expected, found;
      for (std::uint32_t problem = 0; problem < kProblems; ++problem) {
        const std::set<std::string> asked = {one, two};
        for (const std::string& word : asked) {
          if (words_of_problem[problem].contains(word)) ++expected[problem];
        }
      }
      for (const GramIndex::Shared& shared : index.shared_with(row.text, words_of(row)))
        found[shared.problem] = shared.grams;
      EXPECT_EQ(found, expected) << one << " " << two;
    }
  }
}

// "ab c" and "a bc" have the same letters; a table that grew many times still finds all it was given.
TEST(GramIndex, TellsUnitsApartAndGrows) {
  std::deque<NormalText> held;
  GramIndex index(2);
  constexpr int kProblems = 5000;
  for (int i = 0; i < kProblems; ++i) {
    held.push_back(normal_text(fmt::format("ab{} c", i)));
    index.add(held.back().text, words_of(held.back()));
  }
  for (int i = 0; i < kProblems; i += 7) {
    const NormalText row = normal_text(fmt::format("x ab{} c", i)),
                     other = normal_text(fmt::format("a b{} c", i));
    const auto shared = index.shared_with(row.text, words_of(row));
    ASSERT_EQ(shared.size(), 1U);
    EXPECT_EQ(shared.front().problem, static_cast<std::uint32_t>(i));
    EXPECT_THAT(index.shared_with(other.text, words_of(other)), IsEmpty());
  }
}

class Record : public ::testing::Test {
 protected:
  Record() {
    DecontaminateOptions options;
    options.train = directory.write("all.jsonl", "{\"problem\":\"one\"}\n{\"problem\":\"two\"}\n").string();
    suite = directory.write("suite.jsonl", "{\"problem\":\"two\"}\n").string();
    options.tests = {suite};
    options.out = prompts = (directory.path() / "prompts.jsonl").string();
    result = decontaminate(options);
  }

  TemporaryDirectory directory;
  std::string prompts, suite;
  Decontamination result;
};

TEST_F(Record, AnswersForTheFileAndItsSuites) {
  EXPECT_EQ(result.kept, 1);
  EXPECT_EQ(contamination_warning(prompts, {suite}), "");
  const std::string other = directory.write("other.jsonl", "{\"problem\":\"three\"}\n").string();
  EXPECT_THAT(contamination_warning(prompts, {suite, other}), HasSubstr("never checked against " + other));
}

TEST_F(Record, DoesNotAnswerForAnotherFileNorOneThatChanged) {
  EXPECT_THAT(contamination_warning(suite, {}), HasSubstr("never checked"));
  EXPECT_THAT(contamination_warning("-", {}), HasSubstr("never checked"));
  EXPECT_THAT(contamination_warning((directory.path() / "missing").string(), {}), HasSubstr("never checked"));
  directory.write("prompts.jsonl", "{\"problem\":\"two\"}\n");
  const std::string warning = contamination_warning(prompts, {});
  EXPECT_THAT(warning, HasSubstr("changed since it was checked"));
  EXPECT_THAT(warning, HasSubstr("routeopd decontaminate --train " + prompts));
}

TEST_F(Record, IsNotBelievedWhenItIsBroken) {
  for (const char* text : {"", "[]", "{\"sha256\":1}", "{\"sha256\":\"\",\"tests\":7}"}) {
    directory.write("prompts.jsonl.decontaminated.json", text);
    EXPECT_NE(contamination_warning(prompts, {}), "") << text;
  }
}

}  // namespace
}  // namespace routeopd::decontamination
