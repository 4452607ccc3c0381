// The problems of a prompt file as texts: JSONL of {"id"?, "problem" | "messages" | "prompt", "answer"?}.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "routeopd/formats/json_lines.h"

namespace routeopd::decontamination {

struct ProblemLine {
  std::string id;    // of the file, or the line's place among its problems, from 0
  std::string text;  // the problem; the prompt; of messages, what the user says, a line feed between two
  std::optional<std::string> answer;  // as text; none where it is missing or null
};

class ProblemLines {
 public:
  // Throws UserError when the file cannot be read, or is none: it is named by its contents, and read more than once.
  explicit ProblemLines(const std::string& path);

  // The next problem. Throws UserError that names the line for one that is broken or has no text to compare.
  std::optional<ProblemLine> next();

  const std::string& line() const {
    return lines_.text();
  }  // as it stands in the file, without its line feed
  std::int64_t count() const { return count_; }  // problems so far
  std::int64_t bytes_read() const { return lines_.bytes_read(); }
  std::int64_t bytes_total() const { return lines_.bytes_total(); }

 private:
  formats::JsonLines lines_;
  std::int64_t count_ = 0;
};

}  // namespace routeopd::decontamination
