// JSONL: one JSON object per line, UTF-8. Errors name the file and the line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fstream>
#include <istream>
#include <optional>
#include <string>

#include "routeopd/base/fields.h"

namespace routeopd::formats {

class JsonLines {
 public:
  // "-" reads standard input. Throws UserError when the file cannot be read.
  explicit JsonLines(const std::string& path);

  // The next object; blank lines are skipped. Throws UserError for a line that is not a JSON object or is
  // longer than 256 MiB, and Interrupted where a signal ended the reading.
  std::optional<Json> next();

  // Whether reading has failed as a whole: there will be no further line.
  bool broken() const { return broken_; }

  const std::string& text() const { return text_; }  // the line last read, unchanged
  std::int64_t line() const { return line_; }        // number of the line last read, from 1
  std::int64_t bytes_read() const { return bytes_read_; }
  std::int64_t bytes_total() const { return bytes_total_; }  // -1 when unknown

  // "FILE:LINE" of the line last read.
  std::string where() const;

 private:
  std::string path_, text_;
  std::ifstream file_;
  std::istream* in_;
  bool broken_ = false;
  std::int64_t line_ = 0;
  std::int64_t bytes_read_ = 0;
  std::int64_t bytes_total_ = -1;
};

}  // namespace routeopd::formats
