// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/remote/connection.h"

#include <utility>

#include "routeopd/base/display.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/net/secret.h"

namespace routeopd::engine {
namespace {

constexpr std::size_t kMostShown = 300;  // bytes of what a server said, in a message

// What an error's body says: {"error": {"message": …}} or {"error": …} or {"detail": …}, else its beginning.
std::string reason_in(const std::string& body, const std::string& key) {
  std::string reason = body.substr(0, 1 << 16);
  const Json parsed = Json::parse(reason, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_object()) {
    for (const char* name : {"error", "message", "detail"}) {
      Json value = formats::value_or_null(parsed, name);
      if (value.is_object()) value = formats::value_or_null(value, "message");
      if (!value.is_string()) continue;
      reason = value.get<std::string>();
      break;
    }
  }
  net::hide_secret(reason, key);  // where JSON had escaped a character of it
  return reason.size() <= kMostShown ? reason : reason.substr(0, kMostShown) + "…";
}

}  // namespace

Connection::Connection(net::Endpoint endpoint, std::string key, net::HttpLimits limits)
    : endpoint_(std::move(endpoint)), key_(std::move(key)), limits_(limits) {}

net::HttpAnswer Connection::get(std::string_view path) {
  return exchange(path, std::nullopt, "application/json");
}

net::HttpAnswer Connection::post(std::string_view path, std::string body, const char* type) {
  return exchange(path, std::move(body), type);
}

std::string Connection::fetch(std::string_view path) {
  return checked(path, get(path));
}

std::string Connection::ask(std::string_view path, std::string body, const char* type) {
  return checked(path, post(path, std::move(body), type));
}

net::HttpAnswer Connection::exchange(std::string_view path, std::optional<std::string> body,
                                     const char* type) {
  net::HttpRequest request;
  request.url = net::below(endpoint_, path);
  request.limits = limits_;
  request.type = type;
  request.cancelled = cancelled_;
  if (!key_.empty()) request.headers.push_back("Authorization: Bearer " + key_);
  if (body) request.body = std::move(*body);
  net::HttpAnswer answer = body ? client_.post(request) : client_.get(request);
  net::hide_secret(answer.body, key_);  // what servers say may go into errors and logs
  return answer;
}

std::string Connection::checked(std::string_view path, net::HttpAnswer answer) const {
  if (answer.status == 200) return std::move(answer.body);
  throw ServerError(answer.status, answer.retry_after,
                    fmt::format("{}: status {}: {}", net::below(endpoint_, path), answer.status,
                                reason_in(answer.body, key_)));
}

}  // namespace routeopd::engine
