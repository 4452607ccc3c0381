// Ctrl-C, SIGTERM and a closed terminal, which long loops check for between two pieces of work.
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

// From this call on SIGINT, SIGTERM and SIGHUP (unless it is ignored, as under nohup) are remembered, and
// earlier ones forgotten. A second SIGINT or SIGTERM ends the process at once.
void catch_interrupts();

// Throws Interrupted once a signal has come.
void check_interrupt();

// The signal that has come, also while interrupts are held, or 0: for those who wait for something that may
// never come.
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
