// Files that are cut short while they are mapped into memory, or whose disk fails: a read of the mapping then
// ends the process with SIGBUS, and nothing can be thrown from there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace routeopd {

// From this call on a read of a lost mapping ends the process with exit code 1 and a sentence on standard
// error, which names the file where a NamedMapping does. What is being written stays beside its name.
void catch_bus_errors();

// Says whose bytes a mapping holds, for as long as it lives.
class NamedMapping {
 public:
  NamedMapping(const void* start, std::size_t size, std::string path);
  ~NamedMapping();
  NamedMapping(const NamedMapping&) = delete;
  NamedMapping& operator=(const NamedMapping&) = delete;

 private:
  std::string path_;
  std::size_t place_ = 0;  // past the last one: none was free
};

}  // namespace routeopd
