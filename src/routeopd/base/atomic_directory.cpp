//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/atomic_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "routeopd/base/error.h"

namespace routeopd {
namespace {

namespace fs = std::filesystem;

// A file, or the names that a directory holds.
void flush(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  ::fsync(file);
  ::close(file);
}

}  // namespace

AtomicDirectory::AtomicDirectory(fs::path name) : name_(std::move(name)), temporary_(name_) {
  if (name_.filename().empty()) name_ = name_.parent_path();  // "dir/" is "dir"
  temporary_ = name_;
  temporary_ += fmt::format(".partial-{}", ::getpid());
  if (fs::exists(name_))
    throw UserError("{}: exists already; nothing was overwritten, choose another name", name_.string());
  std::error_code failed;
  fs::remove_all(temporary_, failed);  // of a dead process that had our number
  fs::create_directories(temporary_, failed);
  if (failed) throw UserError("{}: cannot be made ({})", temporary_.string(), failed.message());
}

AtomicDirectory::~AtomicDirectory() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
}

void AtomicDirectory::commit() {
  for (const auto& entry : fs::recursive_directory_iterator(temporary_)) flush(entry.path());
  flush(temporary_);
  std::error_code failed;
  fs::rename(temporary_, name_, failed);
  if (failed) throw UserError("{}: cannot be given its name ({})", name_.string(), failed.message());
  flush(name_.has_parent_path() ? name_.parent_path() : fs::path("."));
  committed_ = true;
}

void make_result_directory(const fs::path& path) {
  std::error_code failed;
  if (fs::exists(path) && !(fs::is_directory(path) && fs::is_empty(path, failed)))
    throw UserError("{}: exists already; nothing was overwritten, choose another name", path.string());
  fs::create_directories(path, failed);
  if (failed) throw UserError("{}: cannot be made ({})", path.string(), failed.message());
}

}  // namespace routeopd
