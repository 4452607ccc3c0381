// A regular file's bytes, read-only, for the life of the object. A file that another process cuts short
// meanwhile ends ours with SIGBUS: our own writers never do that, they rename (base/files.h).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace routeopd::formats {

class MappedFile {
 public:
  // Throws UserError, without the path, when there is no regular file that can be read.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(start_), size_}; }

 private:
  void* start_ = nullptr;  // null for an empty file, which cannot be mapped
  std::size_t size_ = 0;
};

}  // namespace routeopd::formats
