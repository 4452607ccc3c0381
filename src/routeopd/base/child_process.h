// Another program, run without a shell: arguments and bytes in, bytes out, each bounded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace routeopd {

struct ChildLimits {
  std::chrono::milliseconds time{60'000};   // from start to end
  std::size_t out = std::size_t{64} << 20;  // bytes of its standard output
  std::size_t err = std::size_t{64} << 10;  // bytes of its standard error to keep
};

struct ChildAnswer {
  int status = 0;  // exit code, or 128 + the signal that ended it
  std::string out, err;
};

// Runs words[0], found on PATH where it has no slash, with the other words as arguments and `input` as
// standard input. Waits for its end. Throws UserError when it cannot be started or exceeds a limit; it is
// then killed.
ChildAnswer run_child(const std::vector<std::string>& words, std::string_view input,
                      const ChildLimits& limits = {});

}  // namespace routeopd
