// Running other programs: input, outputs, status and limits.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/child_process.h"

#include <gmock/gmock.h>

#include "routeopd/base/error.h"

namespace routeopd {
namespace {

using ::testing::HasSubstr;

std::string child_error(const std::vector<std::string>& words, const ChildLimits& limits = {}) {
  try {
    run_child(words, "", limits);
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

TEST(ChildProcess, GivesInputAndTakesBothOutputs) {
  const ChildAnswer answer = run_child({"sh", "-c", "cat; echo trouble >&2; exit 3"}, "given\0bytes");
  EXPECT_EQ(answer.out, "given");  // a C string ends there
  EXPECT_EQ(answer.err, "trouble\n");
  EXPECT_EQ(answer.status, 3);
}

TEST(ChildProcess, PassesWordsAsTheyAre) {
  EXPECT_EQ(run_child({"printf", "%s", "a b; $HOME `id` *"}, "").out, "a b; $HOME `id` *");
}

TEST(ChildProcess, CarriesMoreThanAPipeHolds) {
  const std::string much(std::size_t{3} << 20, 'x');
  EXPECT_EQ(run_child({"cat"}, much).out, much);
  EXPECT_EQ(run_child({"true"}, much).status, 0);  // reads none of it
}

TEST(ChildProcess, EndsAChildThatPassesALimit) {
  EXPECT_THAT(child_error({"sleep", "60"}, {.time = std::chrono::milliseconds(200)}),
              HasSubstr("took more than 0.2 s"));
  EXPECT_THAT(
      child_error({"sh", "-c", "exec >&- 2>&-; exec sleep 60"}, {.time = std::chrono::milliseconds(200)}),
      HasSubstr("took more than 0.2 s"));
  EXPECT_THAT(child_error({"sh", "-c", "yes"}, {.out = 1000}), HasSubstr("wrote more than 1000 bytes"));
  const ChildAnswer quiet = run_child({"sh", "-c", "yes | head -c 100000 >&2"}, "", {.err = 10});
  EXPECT_EQ(quiet.err.size(), 10U);
}

TEST(ChildProcess, SaysThatAProgramIsNotThere) {
  EXPECT_THAT(child_error({"/no/such/program"}),
              HasSubstr("/no/such/program cannot be started: No such file"));
}

TEST(ChildProcess, TellsASignalAsShellsDo) {
  EXPECT_EQ(run_child({"sh", "-c", "kill -9 $$"}, "").status, 128 + 9);
}

}  // namespace
}  // namespace routeopd
