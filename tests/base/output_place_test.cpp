// The place of a file that a command makes: nothing lost, one writer, rows that survive; what is left behind.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/output_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "testing_errors.h"
#include "testing_files.h"

namespace routeopd {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Place : public ::testing::Test {
 protected:
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(directory_.path()), fs::directory_iterator()));
  }
  // A child that does `work` and is killed.
  template <class Work>
  static void killed(const Work& work) {
    const ::pid_t child = ::fork();
    if (child == 0) {
      work();
      for (;;) ::kill(::getpid(), SIGKILL);
    }
    ::waitpid(child, nullptr, 0);
  }

  TemporaryDirectory directory_;
  const fs::path out_ = directory_.path() / "out.jsonl";
  const Json command_ = {{"command", "count"}, {"seed", 1}, {"model", {{"weights", "a"}}}};
};

TEST_F(Place, AFileThatIsThereIsRefusedAndLeft) {
  std::ofstream(out_) << "old";
  EXPECT_THAT(error_of([&] { OutputFile(out_, false); }),
              HasSubstr("choose another name or say --overwrite"));
  EXPECT_EQ(bytes_in(out_), "old");
  {
    OutputFile file(out_, true);
    file.write("new");
    EXPECT_EQ(bytes_in(out_), "old");
  }
  EXPECT_EQ(bytes_in(out_), "old");
  OutputFile file(out_, true);
  file.write("new");
  file.commit();
  EXPECT_EQ(bytes_in(out_), "new");
}

TEST_F(Place, ASecondWriterIsRefusedWhileTheFirstLives) {
  {
    const OutputPlace first(out_, false);
    EXPECT_THAT(error_of([&] { OutputPlace(out_, false); }), HasSubstr("another process is writing it"));
    EXPECT_THAT(error_of([&] { OutputPlace(out_, true); }), HasSubstr("another process is writing it"));
  }
  EXPECT_EQ(entries(), 0U);
  const OutputPlace second(out_, false);
}

TEST_F(Place, RowsSurviveAndTheSameCommandGoesOn) {
  killed([&] {
    OutputPlace place(out_, false);
    RowFile rows(place, command_);
    rows.write("one\n");
    rows.write("two\n");
    std::ofstream(place.rows(), std::ios::app) << "thr";  // torn
  });
  EXPECT_FALSE(fs::exists(out_));
  {
    OutputPlace place(out_, false);
    RowFile rows(place, command_);
    EXPECT_EQ(rows.rows(), 2);
    rows.write("three\n");
    const std::size_t order[] = {2, 0, 1};
    rows.finish(order);
  }
  EXPECT_EQ(bytes_in(out_), "three\none\ntwo\n");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(Place, RowsOfAnotherCommandAreRefusedByTheFieldThatDiffers) {
  {
    OutputPlace place(out_, false);
    RowFile rows(place, command_);
    rows.write("one\n");
  }
  Json other = command_;
  other["model"]["weights"] = "b";
  const auto begin = [&](const Json& command) {
    OutputPlace place(out_, true);
    RowFile(place, command);
  };
  EXPECT_THAT(error_of([&] { begin(other); }), HasSubstr("whose model.weights is another; run that command"));
  other = command_;
  other.erase("seed");
  EXPECT_THAT(error_of([&] { begin(other); }), HasSubstr("whose seed is another"));
  EXPECT_THAT(error_of([&] { OutputFile(out_, true); }), HasSubstr("has rows of a command that was stopped"));
  fs::remove(out_.string() + ".partial.json");
  EXPECT_THAT(error_of([&] { begin(command_); }), HasSubstr("does not say of which command"));
  EXPECT_EQ(bytes_in(out_.string() + ".partial"), "one\n");
}

TEST_F(Place, RowsFromAStreamAreNotTakenUp) {
  const auto begin = [&] {
    OutputPlace place(out_, false);
    RowFile(place, {{"in", "-"}}).write("one\n");
  };
  begin();
  EXPECT_THAT(error_of(begin), HasSubstr("what a stream brings cannot be compared"));
}

TEST_F(Place, NothingStaysOfACommandWithoutRows) {
  killed([&] {
    OutputPlace place(out_, false);
    RowFile rows(place, command_);
    for (;;) ::kill(::getpid(), SIGKILL);
  });
  EXPECT_GT(entries(), 0U);
  {
    OutputPlace place(out_, false);
    RowFile rows(place, {{"command", "another"}});
  }
  EXPECT_EQ(entries(), 0U);
}

TEST_F(Place, WhatKilledProcessesLeftIsRemovedAndWhatLivingOnesWriteStays) {
  killed([&] { AtomicFile(out_).write("half"); });
  killed([&] {
    const auto left = std::make_unique<AtomicFile>(out_);
    left->write(std::string(100000, 'x'));
    for (;;) ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(entries(), 1U);  // the first had its destructor
  const fs::path model = directory_.path() / "model";
  killed([&] {
    const auto left = std::make_unique<AtomicDirectory>(model);
    std::ofstream(left->path() / "weights") << "half";
    for (;;) ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(entries(), 2U);
  std::ofstream(out_.string() + ".partial-7x") << "nobody's";
  AtomicFile living(directory_.path() / "living");
  remove_abandoned(directory_.path());
  EXPECT_EQ(entries(), 2U);
  living.commit();
  EXPECT_TRUE(fs::exists(directory_.path() / "living"));
  EXPECT_TRUE(fs::exists(out_.string() + ".partial-7x"));
}

}  // namespace
}  // namespace routeopd
