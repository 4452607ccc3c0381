// One connection of an HttpServer, and what connections share. Private to the http_*.cpp files of this
// folder: it includes Asio and Beast, which take seconds to compile.
//
// Everything here lives on the thread of the connections, except where a comment names another. Other threads
// reach it through a Gate alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_set>

#include "routeopd/net/http_server.h"

namespace routeopd::net {

class Session;
using ErrorCode = boost::system::error_code;
using SteadyClock = std::chrono::steady_clock;

// The way into the thread of the connections, for as long as there is one. Replies keep it, so they may
// outlive the server.
class Gate {
 public:
  explicit Gate(boost::asio::io_context& io) : io_(&io) {}

  // Any thread. What comes from one thread runs in its order. False, and nothing is run, once the gate is
  // shut.
  template <class Work>
  bool post(Work& work) {
    const std::lock_guard lock(mutex_);
    if (io_ != nullptr) boost::asio::post(*io_, std::move(work));
    return io_ != nullptr;
  }

  void shut() {
    const std::lock_guard lock(mutex_);
    io_ = nullptr;
  }

 private:
  std::mutex mutex_;
  boost::asio::io_context* io_;
};

// What the connections of a server share. It outlives them.
struct Hub {
  Hub(ServerOptions server_options, Handler server_handler);

  void log(std::string_view line) const;  // any thread; never throws
  std::string error_body(int status, std::string_view message) const;
  Headers own_answer(int status, std::string_view client) const;
  void remove(const std::shared_ptr<Session>& session);

  const ServerOptions options;
  const Handler handler;
  boost::asio::io_context io;
  std::shared_ptr<Gate> gate;
  std::unordered_set<std::shared_ptr<Session>> sessions;
  std::list<Session*> idle;  // the one that has been idle longest comes first
  std::atomic<std::int64_t> open{0};
  std::int64_t body_bytes = 0;  // of requests that are being read or answered
  bool stopping = false;
  std::function<void()> on_empty;          // called once when the last session is removed
  std::array<char, 64 << 10> discarded{};  // where drained bytes go, of all connections
  boost::asio::thread_pool pool;
};

// One answer: shared by its Reply, which only passes it on, and by the session until the answer is over.
struct Exchange {
  Session* session = nullptr;  // null once the answer is over
  bool gone = false;           // over because the client went away
  int status = 0;
  std::int64_t bytes = 0;
  std::function<void()> on_gone;
  std::function<void(int, std::int64_t)> on_done;
};

// Has the handler run on the pool; what it throws becomes a 500 (http_reply.cpp).
void run_handler(Hub& hub, IncomingRequest request, const std::shared_ptr<Exchange>& exchange);

// Bytes of bodies that a connection holds, out of those that all may hold together.
class BodyShare {
 public:
  BodyShare() = default;
  explicit BodyShare(Hub& hub) : hub_(&hub) {}
  BodyShare(BodyShare&& other) noexcept
      : hub_(std::exchange(other.hub_, nullptr)), held_(std::exchange(other.held_, 0)) {}
  BodyShare& operator=(BodyShare&& other) noexcept {
    std::swap(hub_, other.hub_);
    std::swap(held_, other.held_);
    return *this;
  }
  ~BodyShare() {
    if (hub_ != nullptr) hub_->body_bytes -= held_;
  }

  bool grow(std::size_t bytes) {  // false: there is no room
    const auto more = static_cast<std::int64_t>(bytes);
    if (hub_->body_bytes + more > hub_->options.most_bytes_of_all_bodies) return false;
    hub_->body_bytes += more;
    held_ += more;
    return true;
  }

 private:
  Hub* hub_ = nullptr;
  std::int64_t held_ = 0;
};

// A body that takes memory as bytes arrive (http::string_body reserves what a client announces), and from a
// share. `no_buffer_space`: the share is used up.
struct GrowingBody {
  struct value_type {
    std::string text;
    BodyShare share;
  };

  class reader {
   public:
    template <bool is_request, class Fields>
    reader(boost::beast::http::header<is_request, Fields>&, value_type& body) : body_(body) {}

    void init(const boost::optional<std::uint64_t>&, ErrorCode& error) { error = {}; }

    template <class Buffers>
    std::size_t put(const Buffers& buffers, ErrorCode& error) {
      std::size_t taken = 0;
      error = {};
      for (const boost::asio::const_buffer buffer : boost::beast::buffers_range_ref(buffers)) {
        if (!body_.share.grow(buffer.size())) {
          error = boost::asio::error::no_buffer_space;
          break;
        }
        body_.text.append(static_cast<const char*>(buffer.data()), buffer.size());
        taken += buffer.size();
      }
      return taken;
    }

    void finish(ErrorCode& error) { error = {}; }

   private:
    value_type& body_;
  };
};

// Reads a request, waits for its answer, writes it, and begins again; requests that a client sends before it
// has its answer stay in the socket meanwhile.
//
// While an answer is pending the socket is watched, and a client that closes is gone. So is one that closes
// only its sending half: it cannot be told from one that has left, and hardly any client does so.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Hub& hub, boost::asio::ip::tcp::socket socket);

  void start();
  void refuse();         // 503: there are too many connections
  void stop_requests();  // the server is stopping: the answer under way is the last
  void close();          // at once; an answer under way is given up, its client counts as gone

  // The answer to the request at hand, in the terms of Reply. A call that comes out of turn is dropped.
  void send(int status, const Headers& headers, const std::string& content_type, std::string body);
  void begin(int status, const Headers& headers, const std::string& content_type);
  void write(std::string piece);
  void finish();
  void drop();
  void abandon();  // nobody will answer any more: 500, or a stream cut where it is

  // Calls `work` with this session, kept alive, and closes it where that throws.
  template <class Work>
  void perform(Work& work) {
    guarded([this, &work] { work(*this); })();
  }

 private:
  enum class State { kIdle, kReading, kAnswering, kDraining, kClosed };
  enum class Stage { kNothing, kStreaming, kWhole, kCut };  // of the answer, as far as it has been queued

  // A completion handler that keeps the session alive and closes it where `work` throws.
  template <class Work>
  auto guarded(Work work);

  // Reading (http_session.cpp).
  void next_request();
  void leave_idle();
  void wait_readable();
  void read_header();
  void on_header(ErrorCode error);
  void read_body();
  void on_body(ErrorCode error);
  void fail_read(ErrorCode error);
  void dispatch();
  void check_gone();
  void drain();
  void drain_more(std::int64_t left);
  void set_deadline(SteadyClock::time_point when);
  void arm_timer();
  int untaken_bytes();
  void on_deadline();
  void give_up_reading(int status);

  // Writing (http_answer.cpp).
  void fail(int status, std::string_view message);
  std::string header_text(int status, const Headers& headers, const std::string& content_type,
                          std::optional<std::size_t> length);
  void push(std::string bytes);
  void pump();
  void on_written(ErrorCode error, std::size_t bytes);
  void answered();
  void cut();
  void end_exchange(bool gone);

  Hub& hub_;
  boost::asio::ip::tcp::socket socket_;
  std::string client_;
  State state_ = State::kDraining;  // until start() or refuse()
  std::list<Session*>::iterator idle_place_;

  boost::asio::steady_timer timer_;
  SteadyClock::time_point deadline_ = SteadyClock::time_point::max();
  bool timer_armed_ = false;  // the timer may fire before the deadline, and then looks again
  boost::asio::steady_timer poll_timer_;
  bool polling_ = false;  // poll_timer_ runs
  bool waiting_ = false;  // the socket is waited for until it can be read

  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<GrowingBody>> parser_;
  int read_failure_ = 0;  // the status to answer once the read that has been cancelled returns

  std::shared_ptr<Exchange> exchange_;  // null for an answer of the server's own
  BodyShare share_;                     // of the request that is being answered
  unsigned version_ = 11;
  bool keep_alive_ = false;
  bool head_ = false;
  Stage stage_ = Stage::kNothing;
  bool chunked_ = false;
  bool without_body_ = false;
  std::deque<std::string> queue_;
  std::size_t front_sent_ = 0;  // bytes of queue_'s first that are written
  std::int64_t queued_bytes_ = 0;
  bool writing_ = false;
  int untaken_ = 0;  // untaken_bytes() when it was last looked at
};

template <class Work>
auto Session::guarded(Work work) {
  return [self = shared_from_this(), work = std::move(work)](auto&&... results) mutable {
    try {
      work(std::forward<decltype(results)>(results)...);
    } catch (const std::exception& error) {  // out of memory, in essence
      self->hub_.log(fmt::format("connection of {}: {}", self->client_, error.what()));
      self->close();
    }
  };
}

}  // namespace routeopd::net
