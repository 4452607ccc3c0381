// Memory that a container, a job of a cluster or a service may take: Linux's control groups, both versions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace routeopd {

// Bytes that this process's group and the groups around it leave to it; pages of files that the kernel would
// give up count as left. None where nothing limits it.
std::optional<std::int64_t> control_group_available_bytes(
    const std::filesystem::path& root = "/sys/fs/cgroup",
    const std::filesystem::path& membership = "/proc/self/cgroup");

}  // namespace routeopd
