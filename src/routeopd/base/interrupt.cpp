// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/interrupt.h"

#include <atomic>
#include <csignal>
#include <cstdlib>

namespace routeopd {
namespace {

// Written by the signal handler, in any thread; read by all.
std::atomic<int> pending_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may touch it");
std::atomic<int> holds = 0;

void remember(int signal) {
  if (pending_signal != 0 && signal == SIGHUP)
    return;  // a closed terminal may send it twice, kernel and shell
  if (pending_signal != 0) std::_Exit(128 + signal);
  pending_signal = signal;
}

}  // namespace

void catch_interrupts() {
  pending_signal = 0;
  std::signal(SIGXFSZ, SIG_IGN);  // write() then reports the file size limit
  struct sigaction action = {};
  action.sa_handler = remember;  // no SA_RESTART: a blocked read returns, too
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A terminal that is closed; under nohup it stays ignored.
  struct sigaction before = {};
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

void check_interrupt() {
  if (pending_signal != 0 && holds == 0) throw Interrupted(pending_signal);
}

int pending_interrupt() {
  return pending_signal;
}

HoldInterrupts::HoldInterrupts() {
  ++holds;
}
HoldInterrupts::~HoldInterrupts() {
  --holds;
}

}  // namespace routeopd
