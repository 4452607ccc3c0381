// A file that appears under its name whole or not at all: written beside it, flushed to the disk, renamed.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string_view>

namespace routeopd {

class AtomicFile {
 public:
  // Throws UserError when a file cannot be made there.
  explicit AtomicFile(std::filesystem::path path);
  // Removes what was written unless commit() was called.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Throws UserError when the disk takes no more.
  void write(std::string_view text);

  // Flushes and gives the file its name, in place of one that was there.
  void commit();

 private:
  [[noreturn]] void fail(std::string_view what) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::ofstream stream_;
  bool committed_ = false;
};

// Removes what killed processes left of `path` before it had its name. Only for a directory that nobody else writes in.
void remove_partial_files(const std::filesystem::path& path);

// A whole file at once.
void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace routeopd
