// routeopd: on-policy distillation with explicit probability transport.
// SPDX-License-Identifier: Apache-2.0
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "program.h"

namespace {

// oneMKL looks for itself while LibTorch is being loaded, and in a directory that was removed ends the
// process with words about a library. This runs before any library's own beginning, so it calls the kernel
// alone, and no sanitizer is ready for it.
__attribute__((no_sanitize("address", "thread", "undefined"))) void refuse_a_vanished_directory() {
  char path[1];  // a longer path is told as ERANGE
  if (::syscall(SYS_getcwd, path, sizeof path) >= 0 || errno != ENOENT) return;
  constexpr std::string_view kWords =
      "routeopd: the working directory has been removed; go to one that is there and run the command again\n";
  [[maybe_unused]] const ::ssize_t ignored = ::write(STDERR_FILENO, kWords.data(), kWords.size());
  ::_exit(1);
}

using Beginning = void (*)();
__attribute__((section(".preinit_array"), used)) const Beginning first = refuse_a_vanished_directory;

}  // namespace

int main(int argc, char** argv) {
  return routeopd::app::run_program(argc, argv);
}
