// What protects a run: one process per directory, and signals that wait for the end of a step.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "routeopd/base/files.h"
#include "routeopd/base/interrupt.h"
#include "testing_errors.h"
#include "testing_files.h"

namespace routeopd {
namespace {

TEST(DirectoryLock, OneAtATime) {
  const TemporaryDirectory directory;
  {
    const DirectoryLock first(directory.path());
    EXPECT_THAT(error_of([&] { const DirectoryLock second(directory.path()); }),
                ::testing::HasSubstr("another process works there"));
  }
  const DirectoryLock after(directory.path());
  EXPECT_THAT(error_of([&] { const DirectoryLock none(directory.path() / "none"); }),
              ::testing::HasSubstr("cannot be opened"));
}

TEST(Interrupts, WaitWhileTheyAreHeld) {
  catch_interrupts();
  {
    const HoldInterrupts whole;
    std::raise(SIGTERM);
    EXPECT_NO_THROW(check_interrupt());
  }
  EXPECT_THROW(check_interrupt(), Interrupted);
  catch_interrupts();
  EXPECT_NO_THROW(check_interrupt());
}

}  // namespace
}  // namespace routeopd
