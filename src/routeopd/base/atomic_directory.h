// A directory that appears under its name whole or not at all: filled beside it, then renamed.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace routeopd {

class AtomicDirectory {
 public:
  // Throws UserError when something of that name exists, or nothing can be made there. Until then it is
  // NAME.partial-PID: what another process left there is not ours to remove.
  explicit AtomicDirectory(std::filesystem::path name);
  // Removes what was written unless commit() was called.
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  // Where to write until then.
  const std::filesystem::path& path() const { return temporary_; }

  void commit();

 private:
  std::filesystem::path name_;
  std::filesystem::path temporary_;
  bool committed_ = false;
};

// Makes a directory, and those above it, for a command's results. Throws UserError when it exists already and is not
// empty: nothing is overwritten.
void make_result_directory(const std::filesystem::path& path);

}  // namespace routeopd
