//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "routeopd/base/error.h"

namespace routeopd {

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  namespace fs = std::filesystem;
  std::error_code unreadable;
  if (fs::is_symlink(path_, unreadable)) path_ = fs::weakly_canonical(path_);  // the rename is for its target
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
  std::error_code ignored;  // nothing more can be done about a file that will not go
  std::filesystem::remove(temporary_, ignored);
}

void AtomicFile::write(std::string_view text) {
  if (!stream_.write(text.data(), static_cast<std::streamsize>(text.size()))) fail("cannot be written");
}

void AtomicFile::commit() {
  if (!stream_.flush()) fail("cannot be written");
  stream_.close();
  const int descriptor = ::open(temporary_.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
  if (descriptor >= 0) ::close(descriptor);
  if (!synced) fail("cannot be flushed to the disk");
  std::error_code error;
  std::filesystem::rename(temporary_, path_, error);
  if (error) fail("cannot be put in place");
  committed_ = true;
}

void AtomicFile::fail(std::string_view what) const {
  throw UserError("{}: {} ({})", path_.string(), what, std::strerror(errno));
}

void remove_partial_files(const std::filesystem::path& path) {
  const std::string prefix = path.filename().string() + ".partial-";
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path(), ignored)) {
    if (entry.path().filename().string().starts_with(prefix)) std::filesystem::remove(entry.path(), ignored);
  }
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace routeopd
