// How the library fails: UserError for anything a user or a file can cause, ROUTEOPD_INVARIANT for our own
// bugs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

namespace routeopd {

// A wrong input, file or answer from a server. The message is one sentence: what, where, what was expected,
// what to try. Only main() prints it.
class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& message) : std::runtime_error(message) {}

  template <class... Args>
  explicit UserError(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

// What the command line itself says wrongly, whatever the files hold: the program exits with 2 rather than 1.
class UsageError : public UserError {
 public:
  using UserError::UserError;
};

[[noreturn]] inline void fail_invariant(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "routeopd: broken invariant at %s:%d: %s\n", file, line, condition);
  std::abort();
}

}  // namespace routeopd

// Aborts with file and line unless `condition` holds, which only a bug of ours can break. Checked in every
// build.
#define ROUTEOPD_INVARIANT(condition) \
  ((condition) ? void(0) : ::routeopd::fail_invariant(__FILE__, __LINE__, #condition))
