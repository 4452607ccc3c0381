// A file that grows line by line, for results that take long: what is done is there. A line is written at once, and taken
// back where the disk takes a part of it; a process that is killed in the very middle of a write may leave its last line
// cut.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace routeopd {

class LineFile {
 public:
  enum class Found { kReplace, kKeep };

  // Throws UserError when the file cannot be written. What is in it stays until the first line comes, or for good with
  // kKeep: new lines then go behind the old ones, whose last is taken away where it has no line feed.
  explicit LineFile(std::filesystem::path path, Found found = Found::kReplace);
  // Removes the file where it made one and no line came.
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // Appends a line; `line` ends in a line feed. Throws UserError when the disk does not take all of it, and takes back
  // the part it took.
  void write(std::string_view line);

  std::int64_t lines() const { return std::ssize(ends_); }  // in the file

  // The file as it should be when all is done: flushed to the disk, and its lines in the order `places` (place i says
  // which of the lines written stands i-th), put there at once. Without places the order stays.
  void finish(std::span<const std::size_t> places = {});

 private:
  void clear();
  void keep_lines();
  [[noreturn]] void fail(std::string_view what) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  bool made_ = false, cleared_ = false;
  std::vector<std::int64_t> ends_;  // of the lines, in bytes
};

}  // namespace routeopd
