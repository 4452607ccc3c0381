// Listening, admitting connections, and stopping.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/net/http_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/beast/core/string.hpp>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "routeopd/base/error.h"
#include "routeopd/net/http_session.h"

namespace routeopd::net {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

constexpr std::chrono::milliseconds kAcceptRetry{100};
// Connections beyond the limit that are being told so; any more are closed without a word.
constexpr std::size_t kMostRefusals = 64;

std::string_view advice(const ErrorCode& error) {
  if (error == asio::error::address_in_use)
    return "stop the program that listens there, or choose another port";
  if (error == asio::error::access_denied) return "choose a port of 1024 or more";
  return "choose an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all of them";
}

// The addresses that a host stands for, those of IPv4 first: "localhost" is mostly asked for as 127.0.0.1.
std::vector<asio::ip::address> addresses_of(asio::io_context& io, std::string host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  ErrorCode error;
  const auto address = asio::ip::make_address(host, error);
  if (!error) return {address};
  tcp::resolver resolver(io);
  std::vector<asio::ip::address> addresses;
  const auto found = resolver.resolve(host, "", tcp::resolver::passive, error);
  if (error)
    throw UserError("cannot listen on {}: the name stands for no address ({}); {}", host, error.message(),
                    advice(error));
  for (const auto& entry : found) addresses.push_back(entry.endpoint().address());
  std::stable_partition(addresses.begin(), addresses.end(), [](const auto& one) { return one.is_v4(); });
  return addresses;
}

tcp::acceptor listen_on(asio::io_context& io, const std::string& host, std::uint16_t port) {
  ErrorCode error;
  for (const auto& address : addresses_of(io, host)) {
    tcp::acceptor acceptor(io);
    const tcp::endpoint endpoint(address, port);
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (!error) return acceptor;
  }
  throw UserError("cannot listen on {}, port {}: {}; {}", host, port, error.message(), advice(error));
}

}  // namespace

std::string_view IncomingRequest::header(std::string_view name) const {
  const auto same = [&](const auto& one) {
    return boost::beast::iequals({one.first.data(), one.first.size()}, {name.data(), name.size()});
  };
  const auto found = std::ranges::find_if(headers, same);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

Hub::Hub(ServerOptions server_options, Handler server_handler)
    : options(std::move(server_options)),
      handler(std::move(server_handler)),
      gate(std::make_shared<Gate>(io)),
      pool(static_cast<std::size_t>(std::max(options.handler_threads, 1))) {}

void Hub::log(std::string_view line) const {
  try {
    if (options.log) options.log(line);
  } catch (...) {  // nobody is left to be told
  }
}

std::string Hub::error_body(int status, std::string_view message) const {
  try {
    if (options.error_body) return options.error_body(status, message);
  } catch (const std::exception& error) {
    log(fmt::format("the body of an error: {}", error.what()));
  } catch (...) {
    log("the body of an error: an unknown exception");
  }
  return nlohmann::json{{"error", message}}.dump();
}

Headers Hub::own_answer(int status, std::string_view client) const {
  Headers headers;
  try {
    if (options.own_answer) headers = options.own_answer(status, client);
  } catch (const std::exception& error) {
    log(fmt::format("the headers of an error: {}", error.what()));
  }
  if (status == 503) headers.emplace_back("Retry-After", "1");
  return headers;
}

void Hub::remove(const std::shared_ptr<Session>& session) {
  sessions.erase(session);
  open = static_cast<std::int64_t>(sessions.size());
  if (sessions.empty() && on_empty) std::exchange(on_empty, nullptr)();
}

struct HttpServer::Parts {
  Parts(ServerOptions options, Handler handler)
      : hub(std::move(options), std::move(handler)),
        acceptor(listen_on(hub.io, hub.options.host, hub.options.port)),
        port(acceptor.local_endpoint().port()),
        retry(hub.io),
        work(hub.io.get_executor()) {
    accept();
    thread = std::thread([this] { run(); });
  }

  // Sessions see to their own exceptions; what gets here is of callbacks.
  void run() {
    for (;;) {
      try {
        hub.io.run();
        return;
      } catch (const std::exception& error) {
        hub.log(fmt::format("the thread of the connections: {}", error.what()));
      } catch (...) {
        hub.log("the thread of the connections: an unknown exception");
      }
    }
  }

  void accept() {
    acceptor.async_accept([this](ErrorCode error, tcp::socket socket) {
      if (!acceptor.is_open()) return;
      if (!error && admit(std::move(socket))) {
        complained = false;
        return accept();
      }
      // Out of descriptors or memory: the connections that wait stay in the kernel's queue meanwhile.
      if (error && !hub.idle.empty()) hub.idle.front()->close();
      if (error && !std::exchange(complained, true))
        hub.log(fmt::format("cannot take a connection: {}", error.message()));
      retry.expires_after(kAcceptRetry);
      retry.async_wait([this](ErrorCode) {
        if (acceptor.is_open()) accept();
      });
    });
  }

  bool admit(tcp::socket socket) {
    try {
      const auto most = static_cast<std::size_t>(hub.options.most_connections);
      if (hub.sessions.size() >= most && !hub.idle.empty()) hub.idle.front()->close();
      if (hub.sessions.size() >= most + kMostRefusals) return true;
      const bool refused = hub.sessions.size() >= most;
      const auto session = std::make_shared<Session>(hub, std::move(socket));
      hub.sessions.insert(session);
      hub.open = static_cast<std::int64_t>(hub.sessions.size());
      refused ? session->refuse() : session->start();
      return true;
    } catch (const std::exception& error) {
      hub.log(fmt::format("cannot take a connection: {}", error.what()));
      return false;
    }
  }

  // On the thread of the connections, as is close_all().
  void begin_stop() {
    if (hub.stopping) return;
    hub.stopping = true;
    ErrorCode ignored;
    acceptor.close(ignored);
    retry.cancel();
    const std::vector<std::shared_ptr<Session>> sessions(hub.sessions.begin(), hub.sessions.end());
    for (const auto& session : sessions) session->stop_requests();
  }

  // Leaves nothing to wait for, so that the thread ends.
  void close_all() {
    begin_stop();
    const std::vector<std::shared_ptr<Session>> sessions(hub.sessions.begin(), hub.sessions.end());
    for (const auto& session : sessions) session->close();
    hub.gate->shut();
    work.reset();
  }

  Hub hub;
  tcp::acceptor acceptor;
  const std::uint16_t port;
  asio::steady_timer retry;  // after an accept that failed
  bool complained = false;   // of that, since one has succeeded
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::thread thread;
  std::mutex stop_mutex;
};

HttpServer::HttpServer(ServerOptions options, Handler handler)
    : parts_(std::make_unique<Parts>(std::move(options), std::move(handler))) {}

HttpServer::~HttpServer() {
  stop(std::chrono::milliseconds(0));
}

std::uint16_t HttpServer::port() const {
  return parts_->port;
}

std::int64_t HttpServer::connections() const {
  return parts_->hub.open;
}

void HttpServer::stop_accepting() {
  auto work = [parts = parts_.get()] { parts->begin_stop(); };
  parts_->hub.gate->post(work);
}

void HttpServer::stop(std::chrono::milliseconds patience) {
  Parts& parts = *parts_;
  const std::lock_guard lock(parts.stop_mutex);
  if (!parts.thread.joinable()) return;
  const auto empty = std::make_shared<std::promise<void>>();
  auto finish = [&parts, empty] {
    parts.begin_stop();
    if (parts.hub.sessions.empty()) return empty->set_value();
    parts.hub.on_empty = [empty] { empty->set_value(); };
  };
  parts.hub.gate->post(finish);
  empty->get_future().wait_for(patience);
  auto close = [&parts] { parts.close_all(); };
  parts.hub.gate->post(close);
  parts.thread.join();
  parts.hub.pool.stop();  // requests that no handler has begun with are given up
  parts.hub.pool.join();
}

}  // namespace routeopd::net
