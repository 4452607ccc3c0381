// Eval directories for the tests: made in the temporary folder, gone with the object.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "routeopd/grade/eval_files.h"
#include "testing_errors.h"

namespace routeopd::grade {

// Responses of one suite from rows of digits, one row a problem: "p0" has the samples of the first row.
inline std::vector<EvalResponse> responses_of(const std::string& suite,
                                              const std::vector<std::string>& rows) {
  std::vector<EvalResponse> responses;
  for (std::size_t p = 0; p < rows.size(); ++p) {
    for (std::size_t s = 0; s < rows[p].size(); ++s) {
      const bool right = rows[p][s] == '1';
      responses.push_back({.suite = suite,
                           .problem = fmt::format("p{}", p),
                           .sample = static_cast<std::int64_t>(s),
                           .response = right ? "\\boxed{1}" : "\\boxed{2}",
                           .extracted = right ? "1" : "2",
                           .correct = right,
                           .format_ok = true,
                           .clipped = false,
                           .tokens = 10});
    }
  }
  return responses;
}

inline Json summary_of(const Json& suites) {
  return {{"decoding", {{"temperature", 0.6}, {"top_p", 1.0}}},
          {"seed", 42},
          {"template", "chat"},
          {"extractor", "phrase or box, 1"},
          {"suites", suites}};
}

class EvalDirectory {
 public:
  EvalDirectory() {
    static int count = 0;
    path_ = std::filesystem::path(::testing::TempDir()) / fmt::format("eval-{}-{}", ::getpid(), ++count);
    std::filesystem::create_directories(path_);
  }
  ~EvalDirectory() { std::filesystem::remove_all(path_); }
  EvalDirectory(const EvalDirectory&) = delete;
  EvalDirectory& operator=(const EvalDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  void write(const Json& summary, const std::vector<EvalResponse>& responses) const {
    write_text("summary.json", summary.dump());
    std::string lines;
    for (const EvalResponse& response : responses) lines += line_of(response);
    write_text("responses.jsonl", lines);
  }
  void write_text(const std::string& file, const std::string& text) const {
    std::ofstream(path_ / file, std::ios::binary) << text;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace routeopd::grade
