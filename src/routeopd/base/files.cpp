// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "routeopd/base/error.h"

namespace routeopd {
namespace {

namespace fs = std::filesystem;

// A file's bytes, or the names in a directory.
bool flush_to_disk(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool flushed = ::fsync(descriptor) == 0;
  ::close(descriptor);
  return flushed;
}

}  // namespace

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  std::error_code unreadable;
  if (fs::is_symlink(path_, unreadable))
    path_ = fs::weakly_canonical(path_);  // the link stays, its target is replaced
  if (fs::exists(path_, unreadable) && !fs::is_regular_file(path_, unreadable)) {
    throw UserError("{}: is not a regular file, and would be replaced by one; name a file, or - for a stream",
                    path_.string());
  }
  temporary_ = path_;
  temporary_ += fmt::format(".partial-{}", ::getpid());
  stream_.open(temporary_, std::ios::binary | std::ios::trunc);
  if (!stream_) fail("cannot be written");
}

AtomicFile::~AtomicFile() {
  if (committed_) return;
  stream_.close();
  std::error_code ignored;  // a file that cannot be removed stays
  fs::remove(temporary_, ignored);
}

void AtomicFile::write(std::string_view text) {
  if (!stream_.write(text.data(), static_cast<std::streamsize>(text.size()))) fail("cannot be written");
}

void AtomicFile::commit() {
  if (!stream_.flush()) fail("cannot be written");
  stream_.close();
  if (!flush_to_disk(temporary_)) fail("cannot be flushed to the disk");
  std::error_code error;
  fs::rename(temporary_, path_, error);
  if (error) fail("cannot be put in place");
  committed_ = true;
}

void AtomicFile::fail(std::string_view what) const {
  throw UserError("{}: {} ({})", path_.string(), what, std::strerror(errno));
}

void write_file(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void remove_partial_files(const fs::path& path) {
  const std::string prefix = path.filename().string() + ".partial-";
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path.parent_path(), ignored)) {
    if (entry.path().filename().string().starts_with(prefix)) fs::remove(entry.path(), ignored);
  }
}

AtomicDirectory::AtomicDirectory(fs::path name) : name_(std::move(name)), temporary_(name_) {
  if (name_.filename().empty()) name_ = name_.parent_path();  // "dir/" is "dir"
  temporary_ = name_;
  temporary_ += fmt::format(".partial-{}", ::getpid());
  if (fs::exists(name_))
    throw UserError("{}: exists already; nothing was overwritten, choose another name", name_.string());
  std::error_code failed;
  fs::remove_all(temporary_, failed);  // of a dead process that had our id
  fs::create_directories(temporary_, failed);
  if (failed) throw UserError("{}: cannot be made ({})", temporary_.string(), failed.message());
}

AtomicDirectory::~AtomicDirectory() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
}

void AtomicDirectory::commit() {
  for (const auto& entry : fs::recursive_directory_iterator(temporary_)) flush_to_disk(entry.path());
  flush_to_disk(temporary_);
  std::error_code failed;
  fs::rename(temporary_, name_, failed);
  if (failed) throw UserError("{}: cannot be renamed into place ({})", name_.string(), failed.message());
  flush_to_disk(name_.has_parent_path() ? name_.parent_path() : fs::path("."));
  committed_ = true;
}

void make_result_directory(const fs::path& path) {
  std::error_code failed;
  if (fs::exists(path) && !(fs::is_directory(path) && fs::is_empty(path, failed)))
    throw UserError("{}: exists already; nothing was overwritten, choose another name", path.string());
  fs::create_directories(path, failed);
  if (failed) throw UserError("{}: cannot be made ({})", path.string(), failed.message());
}

DirectoryLock::DirectoryLock(const fs::path& directory)
    : descriptor_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw UserError("{}: cannot be opened ({})", directory.string(), std::strerror(errno));
  // Any other error comes from a file system without locks: the directory is then used without one.
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(descriptor_);
    throw UserError("{}: another process works there; wait for it, or choose another directory",
                    directory.string());
  }
}

DirectoryLock::~DirectoryLock() {
  ::close(descriptor_);
}

}  // namespace routeopd
