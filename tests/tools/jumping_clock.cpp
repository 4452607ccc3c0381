// LD_PRELOAD of this library makes the clock of the day leap: each reading is a year late or a year early.
// The clock that only runs forward, and the one of the processor's time, stay as they are.
// SPDX-License-Identifier: Apache-2.0
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <ctime>

namespace {

constexpr std::time_t kYear = 365 * 86400;

// In the order of the Thue-Morse sequence, which no fixed number of readings for each use of the clock can
// hide.
std::time_t leap() {
  static std::atomic<unsigned> readings = 0;
  return std::popcount(readings++) % 2 == 0 ? kYear : -kYear;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const auto status = static_cast<int>(::syscall(SYS_clock_gettime, clock, now));
  if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += leap();
  return status;
}

std::time_t time(std::time_t* there) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (there != nullptr) *there = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(timeval* there, void*) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  *there = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}
}
