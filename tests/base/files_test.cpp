// Files and directories that are complete or absent, files of lines, and the static split over threads.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <unistd.h>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "routeopd/base/error.h"
#include "routeopd/base/files.h"
#include "routeopd/base/line_file.h"
#include "routeopd/base/parallel.h"

namespace routeopd {
namespace {

namespace fs = std::filesystem;

class Folder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("routeopd-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  static std::string text_of(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  fs::path folder_;
};

TEST_F(Folder, LinesThatAreKeptStandBeforeNewOnes) {
  const fs::path path = folder_ / "lines";
  std::ofstream(path) << "one\ntwo\nthr";  // the last was cut off
  LineFile file(path, LineFile::Found::kKeep);
  EXPECT_EQ(file.lines(), 2);
  EXPECT_EQ(text_of(path), "one\ntwo\n");
  file.write("three\n");
  EXPECT_EQ(text_of(path), "one\ntwo\nthree\n");
  const std::size_t places[] = {2, 0, 1};
  file.finish(places);
  EXPECT_EQ(text_of(path), "three\none\ntwo\n");
}

TEST_F(Folder, LinesThatAreReplacedStayUntilTheFirstNewOne) {
  const fs::path path = folder_ / "lines";
  std::ofstream(path) << "one\n";
  LineFile file(path);
  EXPECT_EQ(text_of(path), "one\n");
  file.write("two\n");
  EXPECT_EQ(text_of(path), "two\n");
}

TEST_F(Folder, AppearsOnCommitAndNotBefore) {
  const fs::path path = folder_ / "out.txt";
  {
    AtomicFile file(path);
    file.write("one\n");
    EXPECT_FALSE(fs::exists(path));
    file.commit();
  }
  EXPECT_EQ(text_of(path), "one\n");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(Folder, AnAbandonedFileLeavesTheOldOneAndNoTrace) {
  const fs::path path = folder_ / "out.txt";
  std::ofstream(path) << "old";
  {
    AtomicFile file(path);
    file.write("new");
  }
  EXPECT_EQ(text_of(path), "old");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(Folder, ReplacesAnOldFile) {
  const fs::path path = folder_ / "out.txt";
  std::ofstream(path) << "old and longer";
  AtomicFile file(path);
  file.write("new");
  file.commit();
  EXPECT_EQ(text_of(path), "new");
}

TEST_F(Folder, WritesThroughALinkAndLeavesDevicesAlone) {
  std::ofstream(folder_ / "target.txt") << "old";
  fs::create_symlink(folder_ / "target.txt", folder_ / "link.txt");
  AtomicFile file(folder_ / "link.txt");
  file.write("new");
  file.commit();
  EXPECT_TRUE(fs::is_symlink(folder_ / "link.txt"));
  EXPECT_EQ(text_of(folder_ / "target.txt"), "new");
  EXPECT_THROW(AtomicFile("/dev/null"), UserError);
}

TEST_F(Folder, RefusesWhatCannotBeAFile) {
  EXPECT_THROW(AtomicFile(folder_ / "no" / "such" / "place"), UserError);
  EXPECT_THROW(AtomicFile{folder_}, UserError);
}

TEST(ParallelRanges, CoversEveryIndexOnceAndUsesTheThreads) {
  for (const std::int64_t count : {0, 1, 5, 100}) {
    for (const int threads : {1, 2, 7}) {
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
      std::mutex mutex;
      std::set<std::thread::id> ids;
      parallel_ranges(count, 1, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
        const std::lock_guard lock(mutex);
        ids.insert(std::this_thread::get_id());
      });
      for (const auto& times : seen) EXPECT_EQ(times, 1);
      EXPECT_EQ(ids.size(), static_cast<std::size_t>(std::min<std::int64_t>(count, threads)));
    }
  }
}

TEST(ParallelRanges, ShortWorkStaysOnOneThread) {
  int calls = 0;
  parallel_ranges(99, 100, 8, [&](std::int64_t, std::int64_t) { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST_F(Folder, NothingIsRemovedFromADirectoryThatIsRefused) {
  std::ofstream(folder_ / "other");
  std::ofstream(folder_ / "thesis.partial-7") << "words";
  EXPECT_THROW(make_result_directory(folder_), UserError);
  EXPECT_EQ(text_of(folder_ / "thesis.partial-7"), "words");
  fs::remove(folder_ / "other");
  check_result_directory(folder_);
  EXPECT_EQ(text_of(folder_ / "thesis.partial-7"), "words");
  make_result_directory(folder_);
  EXPECT_EQ(entries(), 0U);
}

TEST_F(Folder, AnEmptyNameIsRefused) {
  EXPECT_THROW(AtomicFile(""), UserError);
  EXPECT_THROW(AtomicDirectory(""), UserError);
  EXPECT_THROW(make_result_directory(""), UserError);
}

TEST(ParallelRanges, AnExceptionReachesTheCaller) {
  EXPECT_THROW(parallel_ranges(10, 1, 4,
                               [](std::int64_t begin, std::int64_t) {
                                 if (begin > 0) throw UserError("no");
                               }),
               UserError);
}

}  // namespace
}  // namespace routeopd
