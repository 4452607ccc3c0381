// For tests: a process that is killed at a chosen change of a file. ROUTEOPD_DIE_AT_WRITE=n sends SIGKILL in
// place of the n-th write, flush, rename or removal, a write after half of its bytes; with 0 the process
// lives, and says on standard error at its end how many there were.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace routeopd {

// Counts a change that is about to be made. True when the process is to die at it.
bool is_last_write();

[[noreturn]] void die_at_write();

// Stands before every change of a file or directory but the making of a directory.
inline void before_write() {
  if (is_last_write()) die_at_write();
}

// The same for a change of which a part may be made: `part` makes it.
template <class Part>
void before_write(const Part& part) {
  if (!is_last_write()) return;
  part();
  die_at_write();
}

}  // namespace routeopd
