// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "routeopd/base/die_at_write.h"
#include "routeopd/base/error.h"

namespace routeopd {

LineFile::LineFile(std::filesystem::path path, Found found) : path_(std::move(path)) {
  namespace fs = std::filesystem;
  std::error_code unreadable;
  if (fs::exists(path_, unreadable) && !fs::is_regular_file(path_, unreadable)) {
    throw UserError("{}: is not a regular file; name a file, or - for a stream", path_.string());
  }
  check_folder_of(path_);
  made_ = !fs::exists(path_, unreadable);
  before_write();
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("cannot be written");
  if (found == Found::kKeep && !made_) keep_lines();
}

void LineFile::keep_lines() {
  std::string part(std::size_t{1} << 20, '\0');
  for (std::int64_t at = 0;;) {
    const ::ssize_t count = ::pread(descriptor_, part.data(), part.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("cannot be read");
    if (count == 0) break;
    for (::ssize_t i = 0; i < count; ++i)
      if (part[static_cast<std::size_t>(i)] == '\n') ends_.push_back(at + i + 1);
    at += count;
  }
  if (::ftruncate(descriptor_, ends_.empty() ? 0 : ends_.back()) != 0) fail("cannot be written");
  cleared_ = true;
}

LineFile::~LineFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (made_ && !cleared_) ::unlink(path_.c_str());
}

void LineFile::clear() {
  if (cleared_) return;
  if (::ftruncate(descriptor_, 0) != 0) fail("cannot be written");
  cleared_ = true;
}

void LineFile::write(std::string_view line) {
  clear();
  const std::int64_t start = ends_.empty() ? 0 : ends_.back();
  before_write([&] { (void)!::pwrite(descriptor_, line.data(), line.size() / 2, start); });
  for (std::size_t done = 0; done < line.size();) {
    const ::ssize_t count = ::pwrite(descriptor_, line.data() + done, line.size() - done,
                                     start + static_cast<std::int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int error = errno;
      if (::ftruncate(descriptor_, start) != 0) fail("cannot be written, and its last line is not whole");
      errno = error;
      fail("cannot be written");
    }
    done += static_cast<std::size_t>(count);
  }
  ends_.push_back(start + static_cast<std::int64_t>(line.size()));
}

void LineFile::finish(std::span<const std::size_t> places) {
  clear();
  if (places.empty()) {
    before_write();
    if (::fsync(descriptor_) != 0) fail("cannot be flushed to the disk");
    return;
  }
  ordered_.emplace(path_);
  std::string line;
  for (const std::size_t place : places) {
    ROUTEOPD_INVARIANT(place < ends_.size());
    const std::int64_t start = place == 0 ? 0 : ends_[place - 1];
    line.resize(static_cast<std::size_t>(ends_[place] - start));
    for (std::size_t done = 0; done < line.size();) {
      const ::ssize_t count = ::pread(descriptor_, line.data() + done, line.size() - done,
                                      start + static_cast<std::int64_t>(done));
      if (count <= 0) fail("cannot be read back");
      done += static_cast<std::size_t>(count);
    }
    ordered_->write(line);
  }
  ordered_->commit();
}

void LineFile::fail(std::string_view what) const {
  throw UserError("{}: {} ({})", path_.string(), what, std::strerror(errno));
}

}  // namespace routeopd
