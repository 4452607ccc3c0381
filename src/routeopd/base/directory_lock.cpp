//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "routeopd/base/error.h"

namespace routeopd {

DirectoryLock::DirectoryLock(const std::filesystem::path& directory)
    : descriptor_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw UserError("{}: cannot be opened ({})", directory.string(), std::strerror(errno));
  // File systems that know no locks are taken at their word.
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
