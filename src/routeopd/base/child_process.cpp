// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "routeopd/base/error.h"

namespace routeopd {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  void reset(int number) {
    close();
    number_ = number;
  }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

struct Pipe {
  Descriptor read, write;
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      throw UserError("a pipe cannot be made: {}", std::strerror(errno));
    read.reset(ends[0]);
    write.reset(ends[1]);
  }
};

constexpr int kEndNotKnown = 255;

// A started child. The destructor kills it and waits for it unless wait() was called.
class Child {
 public:
  Child(const std::vector<std::string>& words, int in, int out, int err) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
    const int failed =
        posix_spawnp(&id_, words.front().c_str(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) throw UserError("{} cannot be started: {}", words.front(), std::strerror(failed));
  }
  ~Child() {
    if (id_ <= 0) return;
    ::kill(id_, SIGKILL);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // The status of the child after its end. With `poll` it does not wait: nullopt while the child runs.
  std::optional<int> wait(bool poll = false) {
    int status = 0;
    pid_t ended = 0;
    while ((ended = ::waitpid(id_, &status, poll ? WNOHANG : 0)) < 0 && errno == EINTR) {
    }
    if (ended == 0) return std::nullopt;
    id_ = -1;
    if (ended < 0) return kEndNotKnown;  // whoever started us has SIGCHLD ignored
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t id_ = -1;
};

// Standard input is an unnamed file, not a pipe: a child that does not read it all raises no SIGPIPE here.
std::unique_ptr<std::FILE, CloseFile> file_of(std::string_view input) {
  std::unique_ptr<std::FILE, CloseFile> file(std::tmpfile());
  if (!file || std::fwrite(input.data(), 1, input.size(), file.get()) != input.size() ||
      std::fflush(file.get()) != 0 || ::lseek(::fileno(file.get()), 0, SEEK_SET) != 0)
    throw UserError("a temporary file for a child's input cannot be written: {}", std::strerror(errno));
  return file;
}

}  // namespace

ChildAnswer run_child(const std::vector<std::string>& words, std::string_view input,
                      const ChildLimits& limits) {
  ROUTEOPD_INVARIANT(!words.empty());
  const auto end = std::chrono::steady_clock::now() + limits.time;
  const auto in = file_of(input);
  Pipe out, err;
  Child child(words, ::fileno(in.get()), out.write.get(), err.write.get());
  out.write.close();
  err.write.close();

  const auto time_left = [&] {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      throw UserError("{} took more than {} s and was ended", words.front(),
                      static_cast<double>(limits.time.count()) / 1000);
    return static_cast<int>(std::min<std::int64_t>(left.count(), 1000));
  };
  ChildAnswer answer;
  std::vector<char> piece(std::size_t{1} << 16);
  while (out.read.get() >= 0 || err.read.get() >= 0) {
    std::array<pollfd, 2> waiting = {{{out.read.get(), POLLIN, 0}, {err.read.get(), POLLIN, 0}}};
    if (::poll(waiting.data(), waiting.size(), time_left()) < 0 && errno != EINTR)
      throw UserError("{} cannot be waited for: {}", words.front(), std::strerror(errno));
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      Descriptor& from = i == 0 ? out.read : err.read;
      const ssize_t got = ::read(from.get(), piece.data(), piece.size());
      if (got <= 0) {
        from.close();
        continue;
      }
      std::string& to = i == 0 ? answer.out : answer.err;
      if (i == 0 && to.size() + static_cast<std::size_t>(got) > limits.out)
        throw UserError("{} wrote more than {} bytes and was ended", words.front(), limits.out);
      to.append(piece.data(),
                std::min(static_cast<std::size_t>(got), i == 0 ? limits.out : limits.err - to.size()));
    }
  }
  std::optional<int> status;
  while (!(status = child.wait(true)))
    ::poll(nullptr, 0, std::min(time_left(), 5));  // it may run after closing its outputs
  answer.status = *status;
  return answer;
}

}  // namespace routeopd
