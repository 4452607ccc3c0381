// HTTP as a client: one request at a time, with bounds on every duration and size, stopped at once by Ctrl-C.
//
// Servers are not trusted: reading stops when an answer exceeds its bound, redirects are not followed, bodies
// are not decompressed, and only http and https are used. A proxy from the environment is used for other
// machines and never for this one. TLS certificates are checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/base/error.h"

namespace routeopd::net {

struct HttpLimits {
  std::chrono::milliseconds connect{5'000};
  std::chrono::milliseconds total{600'000};  // from the first step of connecting to the last byte
  std::int64_t body_bytes = 16LL << 20U;     // of the answer
};

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  std::string body;                  // of a POST
  HttpLimits limits;
  const char* type = "application/json";         // of the body
  const std::atomic<bool>* cancelled = nullptr;  // ends the exchange within a fifth of a second once true
};

struct HttpAnswer {
  int status = 0;
  std::string body;
  std::optional<double> retry_after;  // seconds, from the header of that name
};

// No complete answer arrived.
class HttpFailure : public UserError {
 public:
  enum class Kind {
    kConnect,   // no connection: refused, no such host, TLS
    kTimeout,   // over a time limit
    kCut,       // the connection broke, or the answer is not HTTP
    kTooLarge,  // over the limit of bytes
    kCancelled,
  };
  HttpFailure(Kind kind, const std::string& message) : UserError(message), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

// Keeps its connection open between requests. A client serves one thread at a time.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // The answer, whatever its status. Throws HttpFailure, whose message names the address and never a header,
  // and Interrupted within a fifth of a second of a signal.
  HttpAnswer post(const HttpRequest& request);
  HttpAnswer get(const HttpRequest& request);

 private:
  HttpAnswer exchange(const HttpRequest& request, bool post);

  struct Handles;
  std::unique_ptr<Handles> handles_;
};

}  // namespace routeopd::net
