// HTTP as a server: one thread reads and writes all connections, a few threads run the handler, and an answer
// may be sent from any thread, at once or piece by piece. Clients are not trusted: sizes, durations and the
// number of connections are bounded, and a slow or silent client holds back nobody else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace routeopd::net {

// A request that has arrived whole.
struct IncomingRequest {
  std::string method;  // "GET"
  std::string path;    // without the query
  std::string query;   // without the ?
  std::string client;  // address and port of the peer
  std::string body;
  std::chrono::steady_clock::time_point arrived;

  // The first header of that name, in any case; empty where there is none.
  std::string_view header(std::string_view name) const;
  std::vector<std::pair<std::string, std::string>> headers;
};

using Headers = std::vector<std::pair<std::string, std::string>>;

// The answer to one request. Any thread may call it; what is said to a client that is gone is dropped.
// Exactly one of send() and begin() is called, once; a reply that is destroyed before is a 500, or a drop().
// Headers of lengths and of the connection are the server's own: others are not sent, nor any with a control
// character.
class Reply {
 public:
  virtual ~Reply() = default;

  // A whole answer.
  virtual void send(int status, Headers headers, std::string content_type, std::string body) = 0;

  // An answer in pieces (chunked): begin(), then any number of write(), then finish(). drop() in place of
  // finish() cuts the connection, so that the client sees that the answer is not whole.
  virtual void begin(int status, Headers headers, std::string content_type) = 0;
  virtual void write(std::string piece) = 0;
  virtual void finish() = 0;
  virtual void drop() = 0;

  // Called once if the client goes away before its answer is complete, or the server stops; at once if it is
  // gone already. It runs on the thread of the connections: short, and without throwing. (Asked for after the
  // server has stopped, it runs on the asking thread.) A client that closes only its sending half is gone,
  // too.
  virtual void on_gone(std::function<void()> call) = 0;

  // Status and bytes sent, header included, once the answer has been written or given up; for an access log.
  // status 0: the client was gone before. On the same thread as on_gone's.
  virtual void on_done(std::function<void(int status, std::int64_t bytes)> call) = 0;
};

// Runs on one of the handler's threads. May keep the reply and answer later. What it throws is answered with
// 500 and goes to ServerOptions::log.
using Handler = std::function<void(IncomingRequest, std::shared_ptr<Reply>)>;

struct ServerOptions {
  std::string host = "127.0.0.1";             // an address of this machine, or a name that resolves to one
  std::uint16_t port = 0;                     // 0: any that is free
  std::int64_t most_connections = 4096;       // beyond them the one idle longest is closed, else 503
  std::int64_t most_header_bytes = 64 << 10;  // else 431
  std::int64_t most_body_bytes = 64 << 20;    // else 413
  std::int64_t most_bytes_of_all_bodies = 1LL << 30U;  // of requests being read or answered, else 503
  std::chrono::milliseconds read_time{30'000};  // from the first byte of a request to its last, else 408
  std::chrono::milliseconds idle_time{75'000};  // of a connection between requests, and before the first byte
  std::chrono::milliseconds write_time{60'000};  // a client that takes no byte for so long is gone
  int handler_threads = 2;
  // The body of an error that the server itself answers (400, 408, 413, 431, 500, 503), and its content type.
  std::function<std::string(int status, std::string_view message)> error_body = {};
  std::string error_type = "application/json";
  // Asked before such an answer to a request that did not arrive whole: further headers. A place to count it.
  std::function<Headers(int status, std::string_view client)> own_answer = {};
  std::function<void(std::string_view line)> log = {};  // of faults, from any thread; may be empty
};

class HttpServer {
 public:
  // Binds, listens and serves. Throws UserError where it cannot bind.
  HttpServer(ServerOptions options, Handler handler);
  ~HttpServer();  // stop(0 s)
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;
  std::int64_t connections() const;  // open now

  // Takes no more connections and no more requests on open ones (each answer closes its connection). Requests
  // that have arrived are still answered; one that has arrived in part gets a 503.
  void stop_accepting();

  // stop_accepting(), then waits up to `patience` for the answers to go out, then closes everything and waits
  // for handlers that are running. Not to be called by a handler or from a callback of a reply.
  void stop(std::chrono::milliseconds patience);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace routeopd::net
