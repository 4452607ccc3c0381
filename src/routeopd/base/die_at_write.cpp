// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/die_at_write.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace routeopd {
namespace {

class Writes {
 public:
  Writes() {
    const char* const said = std::getenv("ROUTEOPD_DIE_AT_WRITE");
    asked_ = said != nullptr;
    if (asked_) last_ = std::strtoll(said, nullptr, 10);
  }
  ~Writes() {
    if (asked_ && last_ == 0)
      std::fprintf(stderr, "routeopd: %lld writes\n", static_cast<long long>(count_.load()));
  }
  Writes(const Writes&) = delete;
  Writes& operator=(const Writes&) = delete;

  bool is_last() { return asked_ && ++count_ == last_; }

 private:
  bool asked_ = false;
  std::int64_t last_ = 0;
  std::atomic<std::int64_t> count_ = 0;
};

}  // namespace

bool is_last_write() {
  static Writes writes;
  return writes.is_last();
}

void die_at_write() {
  for (;;) ::kill(::getpid(), SIGKILL);
}

}  // namespace routeopd
