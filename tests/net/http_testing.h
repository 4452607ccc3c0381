// For tests of HttpServer: a client of raw bytes, for what no HTTP library would send, and handlers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "routeopd/net/http_server.h"

namespace routeopd::net {

using TestClock = std::chrono::steady_clock;

class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0)
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (socket_ < 0 || ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("the client cannot connect");
  }
  RawClient(RawClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), read_(std::move(other.read_)) {}
  RawClient& operator=(RawClient&&) = delete;
  ~RawClient() { close(); }

  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  // The next bytes are acknowledged 40 ms late, unless something is sent: how Nagle's algorithm shows.
  void delay_acknowledgements() {
    const int quick = 0;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_QUICKACK, &quick, sizeof quick);
  }
  void close_sending() { ::shutdown(socket_, SHUT_WR); }

  // Closes so that the server gets a reset, as of a process that was killed with bytes unread.
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }

  // False where the server no longer takes bytes.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // Bytes until `end` has come (included), or the end of the connection, or ten seconds.
  std::string read_until(std::string_view end) {
    return take([&] {
      const auto at = read_.find(end);
      return at == read_.npos ? read_.npos : at + end.size();
    });
  }
  std::string read_bytes(std::size_t count) {
    return take([&] { return read_.size() >= count ? count : read_.npos; });
  }
  std::string read_all() {
    return take([&] { return read_.npos; });
  }

  // One answer with a Content-Length or chunks; `body` is without the marks of chunks.
  struct Answer {
    std::string header;
    std::string body;
    bool whole = false;
    int status() const { return header.size() < 12 ? 0 : std::stoi(header.substr(9, 3)); }
  };
  Answer read_answer(bool with_body = true) {
    Answer answer{.header = read_until("\r\n\r\n"), .body = {}, .whole = false};
    if (!answer.header.ends_with("\r\n\r\n")) return answer;
    const auto length = answer.header.find("Content-Length: ");
    if (!with_body) {
      answer.whole = true;
    } else if (length != answer.header.npos) {
      const std::size_t bytes = std::stoul(answer.header.substr(length + 16));
      answer.body = read_bytes(bytes);
      answer.whole = answer.body.size() == bytes;
    } else if (answer.header.find("Transfer-Encoding: chunked") != answer.header.npos) {
      for (;;) {
        const std::string line = read_until("\r\n");
        if (!line.ends_with("\r\n")) return answer;
        const std::size_t bytes = std::stoul(line, nullptr, 16);
        const std::string chunk = read_bytes(bytes + 2);
        if (chunk.size() != bytes + 2) return answer;
        answer.body += chunk.substr(0, bytes);
        if (bytes == 0) break;
      }
      answer.whole = true;
    }
    return answer;
  }

  // True once the server has ended the connection, within `time`; bytes that come before are kept.
  bool ends_within(std::chrono::milliseconds time) {
    const auto until = TestClock::now() + time;
    while (!ended_ && TestClock::now() < until) receive(until);
    return ended_;
  }
  bool was_reset() const { return was_reset_; }

 private:
  template <class Find>
  std::string take(const Find& find) {
    const auto until = TestClock::now() + std::chrono::seconds(10);
    std::size_t count = find();
    while (count == read_.npos && !ended_ && TestClock::now() < until) {
      receive(until);
      count = find();
    }
    std::string taken = read_.substr(0, count);
    read_.erase(0, taken.size());
    return taken;
  }

  void receive(TestClock::time_point until) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - TestClock::now()).count();
    pollfd query{.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&query, 1, static_cast<int>(std::max<long>(left, 1))) <= 0) return;
    std::string piece(64 << 10, '\0');
    const auto got = ::recv(socket_, piece.data(), piece.size(), 0);
    ended_ = got <= 0;
    was_reset_ = got < 0;
    if (got > 0) read_.append(piece, 0, static_cast<std::size_t>(got));
  }

  int socket_;
  std::string read_;
  bool ended_ = false;
  bool was_reset_ = false;
};

// Answers with what it was asked.
inline void echo(const IncomingRequest& request, const std::shared_ptr<Reply>& reply) {
  reply->send(200, {}, "text/plain",
              request.method + " " + request.path + "|" + request.query + "|" + request.body);
}

// Hands requests to the test's own thread, which answers when it likes.
struct Inbox {
  struct Item {
    IncomingRequest request;
    std::shared_ptr<Reply> reply;
  };
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<Item> items;

  Handler handler() {
    return [this](IncomingRequest request, std::shared_ptr<Reply> reply) {
      const std::lock_guard lock(mutex);
      items.push_back({std::move(request), std::move(reply)});
      arrived.notify_all();
    };
  }
  Item take() {
    std::unique_lock lock(mutex);
    if (!arrived.wait_for(lock, std::chrono::seconds(10), [&] { return !items.empty(); }))
      throw std::runtime_error("no request has arrived");
    Item item = std::move(items.front());
    items.pop_front();
    return item;
  }
};

inline std::string get(std::string_view path, std::string_view more = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: test\r\n{}\r\n", path, more);
}

inline std::string post(std::string_view body) {
  return fmt::format("POST /p HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
}

}  // namespace routeopd::net
