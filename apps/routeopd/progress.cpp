// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "routeopd/base/utf8.h"
#include "routeopd/table/visible_text.h"

namespace routeopd::app {
namespace {

constexpr std::chrono::milliseconds kTerminalPeriod{200};
constexpr std::chrono::seconds kPlainPeriod{10};

// Cut to one row of the terminal: a line that wraps could not be overwritten.
std::string one_row(const std::string& line) {
  winsize size = {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 8 || line.size() < size.ws_col)
    return line;
  return std::string(utf8_head(line, size.ws_col - 4U)) + "...";
}

}  // namespace

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

Progress::Progress(std::string label, std::int64_t total, bool quiet)
    : label_(std::move(label)),
      total_(total),
      quiet_(quiet),
      terminal_(::isatty(STDERR_FILENO) == 1),
      next_(start_ + std::chrono::seconds(1)) {}

Progress::~Progress() {
  if (shown_ && terminal_) std::fputs("\r\033[K", stderr);
}

void Progress::update(std::int64_t done, const std::string& note) {
  const Clock::time_point now = Clock::now();
  if (quiet_ || now < next_) return;
  next_ = now + (terminal_ ? std::chrono::duration_cast<Clock::duration>(kTerminalPeriod)
                           : std::chrono::duration_cast<Clock::duration>(kPlainPeriod));
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  std::string line = label_;
  if (total_ > 0 && done > 0) {
    const double share = static_cast<double>(done) / static_cast<double>(total_);
    line += fmt::format(" {:3.0f} %, {} left", 100 * share, clock_text(elapsed * (1 - share) / share));
  }
  line += fmt::format(", {}", note);
  line = table::visible(line);
  std::fputs((terminal_ ? "\r\033[K" + one_row(line) : line + "\n").c_str(), stderr);
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace routeopd::app
