// Ctrl-C and SIGTERM, which long loops check for between two pieces of work.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace routeopd {

// Thrown where work stops because of a signal. main() exits with 128 + signal, as shells expect.
class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(int signal) : std::runtime_error("interrupted"), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

// From this call on SIGINT and SIGTERM are remembered, and earlier ones forgotten. A second signal ends the
// process at once.
void catch_interrupts();

// Throws Interrupted once a signal has come.
void check_interrupt();

// The signal that has come, also while interrupts are held: for those who wait for something that may never come.
// 0 where none has.
int pending_interrupt();

// While an object of this class lives, check_interrupt() does not throw: for work that must not stop
// half-way. A second signal still ends the process at once.
class HoldInterrupts {
 public:
  HoldInterrupts();
  ~HoldInterrupts();
  HoldInterrupts(const HoldInterrupts&) = delete;
  HoldInterrupts& operator=(const HoldInterrupts&) = delete;
};

}  // namespace routeopd
