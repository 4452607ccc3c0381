// A directory that one process at a time works in. The system lets go of the lock when the process ends, however it ends.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace routeopd {

class DirectoryLock {
 public:
  // Throws UserError when another process holds it.
  explicit DirectoryLock(const std::filesystem::path& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace routeopd
