// The answers of the public suites, where those are at hand ($SHARED/data, or ../shared beside the
// repository): each can be read and is right, in a box and after a phrase.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "routeopd/formats/json_lines.h"
#include "routeopd/grade/answer.h"

namespace routeopd::grade {
namespace {

std::set<std::string> golds_of_the_suites() {
  const char* const shared = std::getenv("SHARED");
  const std::filesystem::path home =
      shared != nullptr ? std::filesystem::path(shared)
                        : std::filesystem::path(ROUTEOPD_TEST_DATA).parent_path().parent_path() / "shared";
  std::set<std::string> golds;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(home / "data", missing)) {
    if (entry.path().extension() != ".jsonl") continue;
    formats::JsonLines lines(entry.path().string());
    while (const auto line = lines.next()) golds.insert(shown(line->at("answer")));
  }
  return golds;
}

TEST(Golds, CanBeReadAndAreRightInEveryDelimiter) {
  const std::set<std::string> golds = golds_of_the_suites();
  if (golds.empty()) GTEST_SKIP() << "no data/*.jsonl in $SHARED or ../shared";
  for (const std::string& gold : golds) {
    for (const std::string& response :
         {fmt::format("\\boxed{{{}}}", gold), fmt::format("So the answer is {}.", gold),
          fmt::format("The answer is ${}$.", gold), fmt::format("Answer: {}", gold),
          fmt::format("The final answer is {}", gold), fmt::format("**Final Answer**\n{}", gold)}) {
      const Grade right = grade_response(response, gold);
      EXPECT_TRUE(right.correct && right.format_ok) << response;
      // The known answer is always read; here another is known.
      EXPECT_TRUE(grade_response(response, "\\text{none of them}").format_ok) << response;
    }
  }
}

}  // namespace
}  // namespace routeopd::grade
