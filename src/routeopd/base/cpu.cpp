//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/cpu.h"

#include <hwy/targets.h>

#include <fstream>

namespace routeopd {

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

}  // namespace routeopd
