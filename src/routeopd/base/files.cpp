// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "routeopd/base/die_at_write.h"
#include "routeopd/base/error.h"
#include "routeopd/base/hashes.h"

namespace routeopd {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartial = ".partial-";
constexpr std::size_t kBufferBytes = std::size_t{1} << 16;

void refuse_empty_name(const fs::path& path) {
  if (path.empty()) throw UserError("expected the name of a file or directory to write, got an empty one");
}

fs::path partial_name(fs::path path) {
  path += fmt::format("{}{}", kPartial, ::getpid());
  return path;
}

// The process that has the name NAME.partial-PID; 0: it is none.
::pid_t process_of(std::string_view name) {
  const std::size_t at = name.rfind(kPartial);
  if (at == std::string_view::npos) return 0;
  ::pid_t process = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, wrong] = std::from_chars(name.data() + at + kPartial.size(), end, process);
  return wrong == std::errc() && stop == end && process > 0 ? process : 0;
}

enum class Lock { kOurs, kOthers, kNone };  // kNone: a file system without locks

Lock try_lock(int descriptor) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return Lock::kOurs;
  return errno == EWOULDBLOCK ? Lock::kOthers : Lock::kNone;
}

// Makes `path` by make(), which gives a descriptor or -1, and locks it. Somebody who looks whether the file
// was abandoned holds its lock for a moment, and may have removed it before we had the lock: then once more.
template <class Make>
int make_locked(const fs::path& path, const Make& make) {
  for (int tries = 0; tries < 100; ++tries) {
    const int descriptor = make();
    if (descriptor < 0) return -1;
    const Lock lock = try_lock(descriptor);
    if (lock != Lock::kOthers && is_at(descriptor, path)) return descriptor;
    ::close(descriptor);
    if (lock == Lock::kOthers) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  errno = EBUSY;
  return -1;
}

// Piece by piece, each a write that a process may die at.
void remove_pieces(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(fs::symlink_status(path, ignored))) {
    std::vector<fs::path> entries;
    for (const auto& entry : fs::directory_iterator(path, ignored)) entries.push_back(entry.path());
    std::sort(entries.begin(), entries.end());
    for (const fs::path& entry : entries) remove_pieces(entry);
  }
  before_write();
  fs::remove(path, ignored);
}

void remove_if_abandoned(const fs::path& path, ::pid_t process) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return;
  const Lock lock = try_lock(descriptor);
  const bool gone = ::kill(process, 0) != 0 && errno == ESRCH;
  if (lock == Lock::kOurs || (lock == Lock::kNone && gone)) remove_pieces(path);
  ::close(descriptor);
}

}  // namespace

bool is_at(int descriptor, const fs::path& path) {
  struct stat ours = {}, there = {};
  return ::fstat(descriptor, &ours) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

fs::path replaceable_file(fs::path path) {
  refuse_empty_name(path);
  std::error_code unreadable;
  if (fs::is_symlink(path, unreadable)) path = fs::weakly_canonical(path);
  if (fs::exists(path, unreadable) && !fs::is_regular_file(path, unreadable))
    throw UserError("{}: is not a regular file, and would be replaced by one; name a file, or - for a stream",
                    path.string());
  return path;
}

AtomicFile::AtomicFile(fs::path path) : path_(replaceable_file(std::move(path))) {
  temporary_ = partial_name(path_);
  before_write();
  descriptor_ =
      make_locked(temporary_, [&] { return ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666); });
  if (descriptor_ < 0 || ::ftruncate(descriptor_, 0) != 0) {
    const int error = errno;
    if (descriptor_ >= 0) ::close(descriptor_);
    errno = error;
    fail("cannot be written");
  }
}

AtomicFile::~AtomicFile() {
  if (!committed_) {
    std::error_code ignored;  // a file that cannot be removed stays
    fs::remove(temporary_, ignored);
  }
  ::close(descriptor_);
}

void AtomicFile::write(std::string_view text) {
  while (!text.empty()) {
    const std::size_t part = std::min(text.size(), kBufferBytes - buffer_.size());
    buffer_ += text.substr(0, part);
    text.remove_prefix(part);
    if (buffer_.size() == kBufferBytes) write_buffer();
  }
}

void AtomicFile::write_buffer() {
  before_write([&] { (void)!::write(descriptor_, buffer_.data(), buffer_.size() / 2); });
  for (std::size_t done = 0; done < buffer_.size();) {
    const ::ssize_t count = ::write(descriptor_, buffer_.data() + done, buffer_.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("cannot be written");
    done += static_cast<std::size_t>(count);
  }
  buffer_.clear();
}

std::string AtomicFile::sha256() {
  write_buffer();
  return sha256_of_file(temporary_);
}

void AtomicFile::commit() {
  if (!buffer_.empty()) write_buffer();
  before_write();
  if (::fsync(descriptor_) != 0) fail("cannot be flushed to the disk");
  before_write();
  std::error_code error;
  fs::rename(temporary_, path_, error);
  if (error) {
    errno = error.value();
    fail("cannot be put in place");
  }
  committed_ = true;
  flush_to_disk(path_.has_parent_path() ? path_.parent_path() : fs::path("."));  // its name, too
}

void AtomicFile::fail(std::string_view what) const {
  throw UserError("{}: {} ({})", path_.string(), what, std::strerror(errno));
}

void write_file(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

AtomicDirectory::AtomicDirectory(fs::path name) : name_(std::move(name)) {
  refuse_empty_name(name_);
  if (name_.filename().empty()) name_ = name_.parent_path();  // "dir/" is "dir"
  temporary_ = partial_name(name_);
  if (fs::exists(name_))
    throw UserError("{}: exists already; nothing was overwritten, choose another name", name_.string());
  remove_abandoned(name_.parent_path(), name_.filename().string());
  std::error_code failed;
  descriptor_ = make_locked(temporary_, [&] {
    fs::create_directories(temporary_, failed);
    return failed ? -1 : ::open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  });
  if (descriptor_ < 0) {
    const std::string reason = failed ? failed.message() : std::strerror(errno);
    throw UserError("{}: cannot be made ({})", temporary_.string(), reason);
  }
  // Without locks, a dead process that had our id may have left something.
  for (const auto& entry : fs::directory_iterator(temporary_, failed)) fs::remove_all(entry.path(), failed);
}

AtomicDirectory::~AtomicDirectory() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
  ::close(descriptor_);
}

void AtomicDirectory::commit() {
  for (const auto& entry : fs::recursive_directory_iterator(temporary_)) flush_to_disk(entry.path());
  flush_to_disk(temporary_);
  std::error_code failed;
  before_write();
  fs::rename(temporary_, name_, failed);
  if (failed) throw UserError("{}: cannot be renamed into place ({})", name_.string(), failed.message());
  committed_ = true;
  ::flock(descriptor_, LOCK_UN);  // whoever works in the directory now may lock it
  flush_to_disk(name_.has_parent_path() ? name_.parent_path() : fs::path("."));
}

bool is_partial_name(std::string_view name) {
  return process_of(name) != 0;
}

void remove_abandoned(const fs::path& directory, std::string_view name) {
  std::error_code ignored;
  std::vector<fs::path> found;  // first all, since the directory changes
  for (const auto& entry : fs::directory_iterator(directory.empty() ? "." : directory, ignored)) {
    const std::string partial = entry.path().filename().string();
    if (is_partial_name(partial) && (name.empty() || partial.substr(0, partial.rfind(kPartial)) == name))
      found.push_back(entry.path());
  }
  for (const fs::path& path : found) remove_if_abandoned(path, process_of(path.filename().string()));
}

void remove_whole(const fs::path& path) {
  std::error_code failed;
  const fs::path aside = partial_name(path);
  if (fs::exists(fs::symlink_status(aside, failed))) remove_pieces(aside);
  before_write();
  fs::rename(path, aside, failed);
  if (!failed) remove_pieces(aside);
}

void rename_file(const fs::path& from, const fs::path& to) {
  before_write();
  std::error_code failed;
  fs::rename(from, to, failed);
  if (failed)
    throw UserError("{}: cannot be renamed to {} ({})", from.string(), to.string(), failed.message());
}

void remove_file(const fs::path& path) {
  before_write();
  std::error_code failed;
  fs::remove(path, failed);
  if (failed) throw UserError("{}: cannot be removed ({})", path.string(), failed.message());
}

void flush_to_disk(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 && errno == EACCES) return;
  const bool flushed = descriptor >= 0 && (::fsync(descriptor) == 0 || errno == EINVAL);
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!flushed)
    throw UserError("{}: cannot be flushed to the disk ({})", path.string(), std::strerror(error));
}

void check_folder_of(const fs::path& path) {
  const fs::path folder = fs::absolute(path).parent_path();
  if (::access(folder.c_str(), W_OK) != 0)
    throw UserError("{}: its folder cannot be written ({})", path.string(), std::strerror(errno));
}

void check_result_directory(const fs::path& path) {
  refuse_empty_name(path);
  std::error_code failed;
  if (!fs::exists(fs::symlink_status(path, failed))) return;
  bool free = fs::is_directory(path, failed);
  for (const auto& entry : fs::directory_iterator(path, failed))
    free = free && is_partial_name(entry.path().filename().string());
  if (!free)
    throw UserError("{}: exists already; nothing was overwritten, choose another name", path.string());
}

void make_result_directory(const fs::path& path) {
  check_result_directory(path);
  std::error_code failed;
  remove_abandoned(path);
  if (fs::exists(path, failed) && !fs::is_empty(path, failed))
    throw UserError("{}: another process is writing there; wait for it, or choose another name",
                    path.string());
  fs::create_directories(path, failed);
  if (failed) throw UserError("{}: cannot be made ({})", path.string(), failed.message());
}

DirectoryLock::DirectoryLock(const fs::path& directory)
    : descriptor_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw UserError("{}: cannot be opened ({})", directory.string(), std::strerror(errno));
  if (try_lock(descriptor_) == Lock::kOthers) {  // without locks the directory is used without one
    ::close(descriptor_);
    throw UserError("{}: another process works there; wait for it, or choose another directory",
                    directory.string());
  }
}

DirectoryLock::~DirectoryLock() {
  ::close(descriptor_);
}

}  // namespace routeopd
