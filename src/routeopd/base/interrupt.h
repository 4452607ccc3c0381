// Ctrl-C and SIGTERM as a question that long loops ask between two pieces of work.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace routeopd {

// Thrown where work stops because a signal asked for it. main() exits with 128 + signal, as shells expect.
class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(int signal) : std::runtime_error("interrupted"), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

// From here on SIGINT and SIGTERM are remembered, and earlier ones forgotten; a second one ends the process at once.
void catch_interrupts();

// Throws Interrupted once a signal has come.
void check_interrupt();

// While one of these lives, check_interrupt() waits: for work that must not end half-way. A second signal still ends the
// process at once.
class HoldInterrupts {
 public:
  HoldInterrupts();
  ~HoldInterrupts();
  HoldInterrupts(const HoldInterrupts&) = delete;
  HoldInterrupts& operator=(const HoldInterrupts&) = delete;
};

}  // namespace routeopd
