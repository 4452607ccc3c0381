// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/bus_error.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <utility>

namespace routeopd {
namespace {

// Read by a signal handler, which may neither lock nor allocate.
struct Place {
  std::atomic<bool> taken = false;
  std::atomic<std::uintptr_t> start = 0, end = 0;
  std::atomic<const char*> path = nullptr;
};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free &&
              std::atomic<const char*>::is_always_lock_free);

constexpr std::size_t kPlaces = 8192;  // two models of 4,096 files; a mapping beyond them is not named
std::array<Place, kPlaces> places;

void say(const char* words) {
  [[maybe_unused]] const ::ssize_t ignored = ::write(STDERR_FILENO, words, std::strlen(words));
}

void end(int, siginfo_t* about, void*) {
  const auto at = reinterpret_cast<std::uintptr_t>(about->si_addr);
  const char* path = nullptr;
  for (const Place& place : places)
    if (place.start <= at && at < place.end) path = place.path;
  say("routeopd: ");
  if (path == nullptr) {
    say("memory that stands for a file could not be had; is /dev/shm or a disk full?\n");
  } else {
    say(path);
    say(": was cut short while it was read, or its disk failed; make it whole and run the same command "
        "again\n");
  }
  ::_exit(1);
}

}  // namespace

void catch_bus_errors() {
  struct sigaction action = {};
  action.sa_sigaction = end;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

NamedMapping::NamedMapping(const void* start, std::size_t size, std::string path)
    : path_(std::move(path)), place_(0) {
  while (place_ < kPlaces && places[place_].taken.exchange(true)) ++place_;
  if (place_ == kPlaces) return;
  Place& place = places[place_];
  place.path = path_.c_str();
  place.start = reinterpret_cast<std::uintptr_t>(start);
  place.end = place.start + size;
}

NamedMapping::~NamedMapping() {
  if (place_ == kPlaces) return;
  Place& place = places[place_];
  place.end = 0;
  place.start = 0;
  place.path = nullptr;
  place.taken = false;
}

}  // namespace routeopd
