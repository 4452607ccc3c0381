// Votes: what counts as one answer where none is known to be right. The answers are those of docs/grading.md,
// right and wrong ones, and of the laboratory.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "routeopd/formats/json_lines.h"
#include "routeopd/grade/answer.h"
#include "routeopd/grade/eval_files.h"
#include "routeopd/grade/suite_summary.h"

namespace routeopd::grade {
namespace {

// Short ones: what a long one costs, others cost too.
std::vector<std::string> committed_answers() {
  std::set<std::string> texts;
  std::ifstream page(ROUTEOPD_TEST_DATA "/../docs/grading.md");
  for (std::string row; std::getline(page, row);) {
    if (!row.starts_with("| ") || row.starts_with("| `")) continue;  // not the responses
    for (std::size_t begin = 0; (begin = row.find('`', begin)) != std::string::npos;) {
      const std::size_t end = row.find('`', begin + 1);
      if (end == std::string::npos) break;
      if (end - begin > 1 && end - begin < 13) texts.insert(row.substr(begin + 1, end - begin - 1));
      begin = end + 1;
    }
  }
  formats::JsonLines lines(ROUTEOPD_TEST_DATA "/../lab/heldout.jsonl");
  for (int i = 0; i < 40; ++i) {
    const auto line = lines.next();
    if (!line) break;
    texts.insert(shown(line->at("answer")));
  }
  return {texts.begin(), texts.end()};
}

TEST(Votes, AreTheSameInBothOrders) {
  std::vector<Answer> answers;
  for (const std::string& text : committed_answers()) answers.emplace_back(text);
  EXPECT_GT(answers.size(), 200U);
  int same = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_TRUE(interchangeable(answers[i], answers[i])) << answers[i].key();
    for (std::size_t j = 0; j < i; ++j) {
      const bool one = interchangeable(answers[i], answers[j]),
                 other = interchangeable(answers[j], answers[i]);
      EXPECT_EQ(one, other) << answers[i].key() << " / " << answers[j].key();
      same += one ? 1 : 0;
    }
  }
  EXPECT_GT(same, 100);
}

double majority(const std::vector<std::string>& extracted) {
  std::vector<EvalResponse> responses;
  for (std::size_t i = 0; i < extracted.size(); ++i) {
    EvalResponse response;
    response.suite = "math";
    response.problem = "p";
    response.sample = static_cast<std::int64_t>(i);
    response.extracted = extracted[i];
    response.format_ok = true;
    response.correct = extracted[i] == "10";
    responses.push_back(response);
  }
  return suite_summary(responses, {.draws = 10, .level = 0.9})["maj@k"]["4"].get<double>();
}

// Wanted is 10, which 10\% is not. 10 would be right where 10\% is wanted, but is no vote for it: then the
// most votes would be for the wrong answer where that came first, and for the right one where it did not.
TEST(Votes, OfTwoAnswersAreNotAddedUpInOneOrderAlone) {
  EXPECT_EQ(majority({"10\\%", "10", "10", "7"}), 1);
  EXPECT_EQ(majority({"10", "10\\%", "7", "10"}), 1);
  EXPECT_EQ(majority({"10\\%", "0.1", "10", "10"}), 0);
}

}  // namespace
}  // namespace routeopd::grade
