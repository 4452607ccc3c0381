// One server's address with what is sent to it: key, bounds on every duration and size, one request at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "routeopd/net/http_client.h"
#include "routeopd/net/url.h"

namespace routeopd::engine {

// An answer whose status is not 200. The message has the address, the status and what the server said, cut.
class ServerError : public UserError {
 public:
  ServerError(int status, std::optional<double> retry_after, const std::string& message)
      : UserError(message), status_(status), retry_after_(retry_after) {}
  int status() const { return status_; }
  std::optional<double> retry_after() const { return retry_after_; }  // seconds

 private:
  int status_;
  std::optional<double> retry_after_;
};

// Keeps its connection open between requests. Serves one thread at a time.
class Connection {
 public:
  // `key` is sent as a bearer token and shown nowhere; empty: none.
  Connection(net::Endpoint endpoint, std::string key, net::HttpLimits limits);

  const std::string& url() const { return endpoint_.url; }

  // For the requests that follow: the longest answer, in bytes.
  void limit_answer(std::int64_t bytes) { limits_.body_bytes = bytes; }

  // Ends the exchange under way, and all later ones, once `flag` is true; it must outlive the connection.
  void cancel_by(const std::atomic<bool>* flag) { cancelled_ = flag; }

  // The answer, whatever its status. `path` begins with a slash. Throws net::HttpFailure.
  net::HttpAnswer get(std::string_view path);
  net::HttpAnswer post(std::string_view path, std::string body, const char* type = "application/json");

  // The body of an answer with status 200. Throws ServerError for any other.
  std::string fetch(std::string_view path);
  std::string ask(std::string_view path, std::string body, const char* type = "application/json");

 private:
  net::HttpAnswer exchange(std::string_view path, std::optional<std::string> body, const char* type);
  std::string checked(std::string_view path, net::HttpAnswer answer) const;

  net::Endpoint endpoint_;
  std::string key_;
  net::HttpLimits limits_;
  const std::atomic<bool>* cancelled_ = nullptr;
  net::HttpClient client_;
};

}  // namespace routeopd::engine
