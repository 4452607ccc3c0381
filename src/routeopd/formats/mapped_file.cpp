//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "routeopd/base/error.h"

namespace routeopd::formats {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not hold us
  if (descriptor < 0) throw UserError("cannot be read ({}); is the path right?", std::strerror(errno));
  struct stat status = {};
  const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  size_ = regular ? static_cast<std::size_t>(status.st_size) : 0;
  if (size_ > 0) start_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int reason = errno;
  ::close(descriptor);
  if (!regular) throw UserError("is not a regular file; is the path right?");
  if (start_ == MAP_FAILED) throw UserError("cannot be mapped into memory ({})", std::strerror(reason));
}

MappedFile::~MappedFile() {
  if (start_ != nullptr) ::munmap(start_, size_);
}

}  // namespace routeopd::formats
