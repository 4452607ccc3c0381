// Files and directories that appear under their names complete or not at all (written under another name in
// the same place, flushed to the disk, renamed), and directories that one process at a time works in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace routeopd {

// The other name is NAME.partial-PID. Its process holds a lock on it: what a killed process left can be told
// from what a living one writes, whatever process has the number by then.
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

  // SHA-256 of what was written so far.
  std::string sha256();

  // Flushes the file and gives it its name, replacing an earlier file. The lock on it stays until the end of
  // this object.
  void commit();

 private:
  void write_buffer();
  [[noreturn]] void fail(std::string_view what) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  std::string buffer_;
  bool committed_ = false;
};

// A whole file at once.
void write_file(const std::filesystem::path& path, std::string_view text);

class AtomicDirectory {
 public:
  // Throws UserError when the name is taken, or when the directory cannot be created. Until commit() it is
  // called NAME.partial-PID. What killed processes left under such names is removed.
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
  int descriptor_ = -1;
  bool committed_ = false;
};

// Whether `name` is one that files and directories have before they are whole, or while they are removed:
// readers of a directory pass over it.
bool is_partial_name(std::string_view name);

// Removes the files and directories NAME.partial-PID whose process is gone: of all names in `directory`, or
// of one. Never what a living process writes.
void remove_abandoned(const std::filesystem::path& directory, std::string_view name = {});

// A file or directory that vanishes as it appeared, at once: under another name it is removed piece by piece.
// What cannot be removed stays.
void remove_whole(const std::filesystem::path& path);

// Where a file of this name is made: where a link leads, which stays. Throws UserError where anything but a
// regular file is there.
std::filesystem::path replaceable_file(std::filesystem::path path);

// Whether an open file is the one of this name, and not one that has it no more.
bool is_at(int descriptor, const std::filesystem::path& path);

// Renames or removes one file; throws UserError where that fails.
void rename_file(const std::filesystem::path& from, const std::filesystem::path& to);
void remove_file(const std::filesystem::path& path);

// Has the bytes of a file, or the names in a directory, written to the disk. Throws UserError when the disk
// fails; directories that cannot be read, and file systems that flush no directories, pass.
void flush_to_disk(const std::filesystem::path& path);

// Where files are to be made. Throws UserError when the folder is not there or cannot be written.
void check_folder_of(const std::filesystem::path& path);

// Creates a directory and its parents for a command's results. Throws UserError when it exists and is not
// empty: nothing is overwritten. What killed processes left in it does not count, and is removed once nothing
// else is there.
void make_result_directory(const std::filesystem::path& path);

// What make_result_directory() would refuse, before the work. Changes nothing.
void check_result_directory(const std::filesystem::path& path);

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
