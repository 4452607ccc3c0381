// Events files: the bytes TensorBoard's own writer makes, files that do not disturb each other, a disk that
// is full.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/tensorboard_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <string>

#include "testing_files.h"

namespace routeopd::formats {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr double kStart = 1700000000.25;  // seconds

// Half a second later at each call.
std::function<double()> ticking() {
  return [calls = 0]() mutable { return kStart + 0.5 * calls++; };
}

std::size_t files_in(const fs::path& directory) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

// No file of this process grows beyond `bytes` while it lives, as on a disk that is full.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::size_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit lower = {bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &lower);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_ = {};
  void (*handler_)(int);
};

// The events of tests/goldens/make_tensorboard_goldens.py.
TEST(TensorboardEvents, WritesTheBytesOfTensorboardsOwnWriter) {
  const TemporaryDirectory directory;
  TensorboardEvents events(directory.path(), ticking(), "host");
  events.scalar("loss", 0, 0.0);
  events.scalars(1, std::array<TaggedValue, 4>{
                        {{"loss", 0.1}, {"lr", 1e-6}, {"time/rollout", 12.75}, {"validity/größe", -3}}});
  events.scalars(127, std::array<TaggedValue, 5>{{{"loss", NAN},
                                                  {"grad_norm", INFINITY},
                                                  {"lr", -INFINITY},
                                                  {"tokens", 16777217},
                                                  {"mass", 1e300}}});
  events.scalar("loss", 128, -0.0);
  events.restart(128);
  events.scalar(
      "a tag of more than 127 bytes, whose length takes two bytes as that of the value around it does/" +
          std::string(40, 'x'),
      128, 1.5);
  events.scalar("loss", std::int64_t{1} << 40, 1e-45);
  const std::string golden = bytes_in(fs::path(ROUTEOPD_TEST_DATA) / "goldens" / "tensorboard.events");
  ASSERT_FALSE(golden.empty());
  EXPECT_EQ(bytes_in(events.path()), golden);
}

TEST(TensorboardEvents, NamesFilesAsTensorboardDoesAndMakesTheDirectory) {
  const TemporaryDirectory directory;
  const fs::path inner = directory.path() / "a" / "b";
  const TensorboardEvents events(inner, [] { return 12.9; }, "host");
  EXPECT_EQ(events.path().parent_path(), inner);
  // Not MatchesRegex: Oniguruma, which is linked here, has a regcomp of its own, and gtest would call that
  // one.
  const std::string name = events.path().filename().string();
  const std::string expected = fmt::format("events.out.tfevents.0000000012.host.{}.", ::getpid());
  ASSERT_THAT(name, StartsWith(expected));
  const std::string count = name.substr(expected.size());
  EXPECT_FALSE(count.empty());
  EXPECT_EQ(count.find_first_not_of("0123456789"), std::string::npos) << name;
  const TensorboardEvents named(inner);
  EXPECT_THAT(named.path().filename().string(), HasSubstr(fmt::format(".{}.", host_name())));
  EXPECT_FALSE(host_name().empty());
}

TEST(TensorboardEvents, LeavesFilesThatAreThereAlone) {
  const TemporaryDirectory directory;
  const auto name = [](int count) {
    return fmt::format("events.out.tfevents.{}.host.{}.{}", 1700000000, ::getpid(), count);
  };
  const TensorboardEvents first(directory.path(), ticking(), "host");
  int count = 0;
  while (first.path().filename() != name(count)) ++count;
  directory.write(name(count + 1), "another's");
  const TensorboardEvents second(directory.path(), ticking(), "host");
  EXPECT_EQ(second.path().filename(), name(count + 2));
  EXPECT_EQ(bytes_in(directory.path() / name(count + 1)), "another's");
  EXPECT_EQ(bytes_in(first.path()), bytes_in(second.path()));
}

TEST(TensorboardEvents, AStepIsOnTheFileWhenTheCallReturns) {
  const TemporaryDirectory directory;
  TensorboardEvents events(directory.path(), ticking(), "host");
  const std::string before = bytes_in(events.path());
  events.scalars(1, {});
  EXPECT_EQ(bytes_in(events.path()), before) << "nothing measured, nothing written";
  events.scalar("loss", 1, 0.5);
  const std::string after = bytes_in(events.path());
  EXPECT_THAT(after, StartsWith(before));
  // 16 of length and checksums; 9 wall time, 2 step, 2 + 2 around the value, 6 tag, 5 value.
  EXPECT_EQ(after.size(), before.size() + 16 + 26);
}

TEST(TensorboardEvents, AFullDiskIsSaidAndLeavesWholeRecords) {
  const TemporaryDirectory directory;
  TensorboardEvents events(directory.path(), ticking(), "host");
  events.scalar("loss", 1, 0.5);
  const std::string before = bytes_in(events.path());
  std::string error;
  {
    const FileSizeLimit limit(before.size() + 10);
    error = error_of([&] { events.scalar("loss", 2, 0.25); });
  }
  EXPECT_EQ(error, events.path().string() + ": cannot be written; is the disk full?");
  EXPECT_EQ(bytes_in(events.path()), before);

  events.scalar("loss", 3, 0.125);
  EXPECT_THAT(bytes_in(events.path()), StartsWith(before));
  EXPECT_EQ(bytes_in(events.path()).size(), before.size() + 16 + 26);
}

TEST(TensorboardEvents, AFileThatCannotBeBegunIsNotLeft) {
  const TemporaryDirectory directory;
  {
    const FileSizeLimit limit(0);
    EXPECT_THAT(error_of([&] { TensorboardEvents events(directory.path()); }),
                HasSubstr("is the disk full?"));
  }
  EXPECT_EQ(files_in(directory.path()), 0U);
  const fs::path file = directory.write("file", "text");
  EXPECT_THAT(error_of([&] { TensorboardEvents events(file / "below"); }),
              HasSubstr("below: cannot be made ("));
  EXPECT_THAT(error_of([&] { TensorboardEvents events(file); }), HasSubstr("file: cannot be made ("));
  EXPECT_THAT(error_of([&] { TensorboardEvents events(directory.path(), wall_seconds, "no/host"); }),
              HasSubstr("cannot be made (No such file or directory)"));
}

}  // namespace
}  // namespace routeopd::formats
