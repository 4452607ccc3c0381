// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/system.h"

#include <hwy/targets.h>
#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "routeopd/base/control_group.h"

namespace routeopd {
namespace {

std::int64_t proc_bytes(const char* file, const std::string& field) {
  std::ifstream status(file);
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) * 1024;  // in kB
  }
  return 0;
}

}  // namespace

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string kernel_target() {
  const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(targets & -targets);  // the lowest bit is the best target
}

std::int64_t resident_bytes() {
  return proc_bytes("/proc/self/status", "VmRSS");
}

std::int64_t peak_resident_bytes() {
  return proc_bytes("/proc/self/status", "VmHWM");
}

std::int64_t available_bytes() {
  const std::int64_t host = proc_bytes("/proc/meminfo", "MemAvailable");
  const std::optional<std::int64_t> group = control_group_available_bytes();
  return group ? std::min(host, *group) : host;
}

void reset_peak_resident() {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace routeopd
