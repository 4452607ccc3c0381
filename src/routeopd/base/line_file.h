// A file that grows line by line, for results that take long: every finished line is in it. A line that could
// be written only in part is removed again; a process killed in the middle of a write may leave its last line
// incomplete.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "routeopd/base/files.h"

namespace routeopd {

class LineFile {
 public:
  enum class Found { kReplace, kKeep };

  // Throws UserError when the file cannot be written. Earlier contents stay until the first line is written.
  // With kKeep they stay for good: new lines follow them, after a last line without a line feed is removed.
  explicit LineFile(std::filesystem::path path, Found found = Found::kReplace);
  // Removes the file if it was created here and no line was written.
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // Appends a line; `line` ends in a line feed. Throws UserError when not all of it can be written, and
  // removes the part that was.
  void write(std::string_view line);

  std::int64_t lines() const { return std::ssize(ends_); }  // in the file

  // Flushes the file to the disk when all lines are written. With `places`, first replaces it by one whose
  // i-th line is the line that was written as number places[i]; the replacement is locked, as AtomicFile does
  // it, for as long as this object lives. Nothing is written after it.
  void finish(std::span<const std::size_t> places = {});

 private:
  void clear();
  void keep_lines();
  [[noreturn]] void fail(std::string_view what) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  bool made_ = false, cleared_ = false;
  std::optional<AtomicFile> ordered_;
  std::vector<std::int64_t> ends_;  // of the lines, in bytes
};

}  // namespace routeopd
