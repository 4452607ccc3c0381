//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/interrupt.h"

#include <atomic>
#include <csignal>
#include <cstdlib>

namespace routeopd {
namespace {

// Written by a handler in whichever thread the signal finds, read by all.
std::atomic<int> pending_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may touch it");
std::atomic<int> holds = 0;

void remember(int signal) {
  if (pending_signal != 0) std::_Exit(128 + signal);
  pending_signal = signal;
}

}  // namespace

void catch_interrupts() {
  pending_signal = 0;
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may grow no further is an error of write(), which tells
  struct sigaction action = {};
  action.sa_handler = remember;  // no SA_RESTART: a read that waits for input ends too
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void check_interrupt() {
  if (pending_signal != 0 && holds == 0) throw Interrupted(pending_signal);
}

HoldInterrupts::HoldInterrupts() {
  ++holds;
}
HoldInterrupts::~HoldInterrupts() {
  --holds;
}

}  // namespace routeopd
