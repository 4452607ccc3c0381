//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/memory.h"

#include <malloc.h>

#include <fstream>
#include <string>

namespace routeopd {
namespace {

std::int64_t bytes_in(const char* file, const std::string& field) {
  std::ifstream status(file);
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) * 1024;  // in kB
  }
  return 0;
}

}  // namespace

std::int64_t resident_bytes() {
  return bytes_in("/proc/self/status", "VmRSS");
}

std::int64_t peak_resident_bytes() {
  return bytes_in("/proc/self/status", "VmHWM");
}

std::int64_t available_bytes() {
  return bytes_in("/proc/meminfo", "MemAvailable");
}

void reset_peak_resident() {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace routeopd
