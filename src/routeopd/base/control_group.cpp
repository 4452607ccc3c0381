// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/control_group.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace routeopd {
namespace {

namespace fs = std::filesystem;

struct Version {
  const char* limit;
  const char* used;
  const char* given_up;  // a field of memory.stat
};
constexpr Version kSecond = {"memory.max", "memory.current", "inactive_file"};
constexpr Version kFirst = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};

// None where there is no such file, or a word such as "max" stands in it.
std::optional<std::int64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

std::int64_t field_of_stat(const fs::path& folder, const std::string& name) {
  std::ifstream file(folder / "memory.stat");
  std::string field;
  for (std::int64_t number = 0; file >> field >> number;)
    if (field == name) return number;
  return 0;
}

// What the group in `folder` leaves.
std::optional<std::int64_t> left_by(const fs::path& folder, const Version& version) {
  const auto limit = number_in(folder / version.limit), used = number_in(folder / version.used);
  if (!limit || !used) return std::nullopt;
  const std::int64_t taken = std::max<std::int64_t>(0, *used - field_of_stat(folder, version.given_up));
  return std::max<std::int64_t>(0, *limit - taken);
}

}  // namespace

std::optional<std::int64_t> control_group_available_bytes(const fs::path& root, const fs::path& membership) {
  std::optional<std::int64_t> least;
  std::ifstream groups(membership);
  for (std::string line; std::getline(groups, line);) {
    // "0::/group" in the second version; "7:cpu,memory:/group" in the first.
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_second = controllers == ",,";
    if (!is_second && controllers.find(",memory,") == controllers.npos) continue;
    const fs::path top = is_second ? root : root / "memory";
    // A container may see its own group as the top, and its path of the outside in the file: folders that are
    // not there say nothing.
    for (fs::path group = fs::path(line.substr(second + 1)).relative_path();; group = group.parent_path()) {
      const auto left = left_by(group.empty() ? top : top / group, is_second ? kSecond : kFirst);
      if (left) least = least ? std::min(*least, *left) : *left;
      if (group.empty()) break;
    }
  }
  return least;
}

}  // namespace routeopd
