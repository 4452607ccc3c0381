// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/control_group.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "routeopd/base/system.h"

namespace routeopd {
namespace {

namespace fs = std::filesystem;

class ControlGroup : public ::testing::Test {
 protected:
  ControlGroup() { fs::create_directories(root_); }
  ~ControlGroup() override { fs::remove_all(root_); }
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::optional<std::int64_t> left() const {
    return control_group_available_bytes(root_ / "fs", root_ / "membership");
  }

  fs::path root_ = fs::path(::testing::TempDir()) / "routeopd-control-group";
};

TEST_F(ControlGroup, TheTightestOfTheGroupsAroundCounts) {
  write("membership", "0::/jobs/mine\n");
  EXPECT_EQ(left(), std::nullopt);
  write("fs/jobs/mine/memory.max", "max\n");
  write("fs/jobs/mine/memory.current", "700\n");
  EXPECT_EQ(left(), std::nullopt);
  write("fs/jobs/memory.max", "1000\n");
  write("fs/jobs/memory.current", "800\n");
  write("fs/jobs/memory.stat", "anon 500\ninactive_file 300\nactive_file 5\n");
  EXPECT_EQ(left(), 1000 - (800 - 300));
  write("fs/jobs/mine/memory.max", "750\n");
  EXPECT_EQ(left(), 750 - 700);
  write("fs/jobs/mine/memory.current", "760\n");  // the kernel is about to act
  EXPECT_EQ(left(), 0);
}

TEST_F(ControlGroup, AContainerSeesItsOwnGroupAsTheTop) {
  write("membership", "12:cpu,cpuacct:/docker/abc\n7:hugetlb,memory:/docker/abc\n");
  write("fs/memory/memory.limit_in_bytes", "4096\n");
  write("fs/memory/memory.usage_in_bytes", "1096\n");
  write("fs/memory/memory.stat", "inactive_file 9\ntotal_inactive_file 96\n");
  EXPECT_EQ(left(), 4096 - (1096 - 96));
}

TEST_F(ControlGroup, WhatTheSystemCouldGiveIsWithinIt) {
  const auto own = control_group_available_bytes();
  if (own) {
    EXPECT_LE(available_bytes(), *own + (std::int64_t{64} << 20));  // other work goes on meanwhile
  }
  EXPECT_GT(available_bytes(), 0);
}

}  // namespace
}  // namespace routeopd
