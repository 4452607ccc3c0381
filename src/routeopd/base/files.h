// Files and directories that appear under their names complete or not at all (written under another name in
// the same place, flushed to the disk, renamed), and directories that one process at a time works in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string_view>

namespace routeopd {

class AtomicFile {
 public:
  // Throws UserError when no file can be created there.
  explicit AtomicFile(std::filesystem::path path);
  // Removes what was written unless commit() was called.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Throws UserError when the disk is full or fails.
  void write(std::string_view text);

  // Flushes the file and gives it its name, replacing an earlier file.
  void commit();

 private:
  [[noreturn]] void fail(std::string_view what) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::ofstream stream_;
  bool committed_ = false;
};

// A whole file at once.
void write_file(const std::filesystem::path& path, std::string_view text);

// Removes the temporary files of `path` that killed processes left. Only for a directory that no other
// process writes to.
void remove_partial_files(const std::filesystem::path& path);

class AtomicDirectory {
 public:
  // Throws UserError when the name is taken, or when the directory cannot be created. Until commit() it is
  // called NAME.partial-PID; what another process left under its own such name is not removed.
  explicit AtomicDirectory(std::filesystem::path name);
  // Removes what was written unless commit() was called.
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  // Where to write before commit().
  const std::filesystem::path& path() const { return temporary_; }

  void commit();

 private:
  std::filesystem::path name_;
  std::filesystem::path temporary_;
  bool committed_ = false;
};

// Creates a directory and its parents for a command's results. Throws UserError when it exists and is not
// empty: nothing is overwritten.
void make_result_directory(const std::filesystem::path& path);

// Held while one process works in a directory. The system releases the lock when the process ends, however it
// ends.
class DirectoryLock {
 public:
  // Throws UserError when another process holds the lock.
  explicit DirectoryLock(const std::filesystem::path& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace routeopd
