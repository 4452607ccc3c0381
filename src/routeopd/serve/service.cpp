// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/service.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "routeopd/serve/answer_json.h"
#include "routeopd/serve/errors.h"
#include "routeopd/serve/request_id.h"
#include "routeopd/serve/routes.h"

namespace routeopd::serve {
namespace {

constexpr std::string_view kGuarded = "/v1";  // as in vLLM: health, version and metrics are open to all

// In a time that depends on the lengths alone.
bool same_secret(std::string_view given, std::string_view expected) {
  unsigned difference = given.size() == expected.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char other = expected[i % expected.size()];
    difference |=
        static_cast<unsigned>(static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(other));
  }
  return difference == 0;
}

std::string_view bearer_of(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size()) return {};
  for (std::size_t i = 0; i < kScheme.size(); ++i) {
    const char c = authorization[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c) != kScheme[i]) return {};
  }
  return authorization.substr(kScheme.size());
}

// What a client chose, without what could pass for another part of the line or reach a terminal.
std::string loggable(std::string_view path) {
  constexpr std::size_t kLongest = 200;
  std::string text(path.substr(0, kLongest));
  for (char& c : text) c = c > 0x20 && c < 0x7f && c != '"' ? c : '?';
  return text;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int status_of(engine::Ending ending) {
  switch (ending) {
    case engine::Ending::kDone:
      return 200;
    case engine::Ending::kExpired:
      return 504;
    case engine::Ending::kCancelled:
      return 499;  // no client is left to read it
    case engine::Ending::kNonFinite:
      return 422;
    case engine::Ending::kFailed:
      return 500;
    case engine::Ending::kStopped:
      return 503;
  }
  return 500;
}

Service::Service(ServiceOptions options, Backend backend)
    : options_(std::move(options)), backend_(std::move(backend)), started_(seconds_now()) {
  for (Route& route : standard_routes()) add(std::move(route));
  add({"GET", "/v1/models/" + options_.model.name, answer_model});
}

net::Handler Service::handler() {
  return [this](net::IncomingRequest request, std::shared_ptr<net::Reply> reply) {
    Call call{.request = std::move(request), .reply = std::move(reply), .id = {}};
    const std::string_view given = call.request.header("x-request-id");
    call.id = is_request_id(given) ? std::string(given) : new_request_id();
    handle(std::move(call));
  };
}

void Service::handle(Call call) {
  const auto here = [&](const Route& route) { return route.path == call.request.path; };
  const auto first = std::find_if(routes_.begin(), routes_.end(), here);
  const auto route = std::find_if(routes_.begin(), routes_.end(), [&](const Route& each) {
    return here(each) && each.method == call.request.method;
  });
  watch(call, first != routes_.end() ? first->path : "other");  // of a fixed set
  // A web page may send such requests to a server on its reader's own machine, with no key asked for.
  if (!call.request.header("origin").empty())
    return send_error(call, 403, "Forbidden: requests of web pages (with the header Origin) are not served");
  if (!options_.key.empty() && call.request.path.starts_with(kGuarded) && !has_key(call.request))
    return send_unauthorized(call);
  if (first == routes_.end())
    return send_error(call, 404, fmt::format("Not Found: there is no {} here", call.request.path));
  if (route == routes_.end()) {
    net::Headers with = headers(call, stats().weights_version);
    std::string methods;
    for (const Route& each : routes_)
      if (here(each)) methods += (methods.empty() ? "" : ", ") + each.method;
    with.emplace_back("Allow", methods);
    call.reply->send(
        405, std::move(with), "application/json",
        error_body(405, fmt::format("Method Not Allowed: {} takes {}", call.request.path, methods)));
    return;
  }
  // The route may keep the call; what it throws is answered all the same.
  const Call kept{.request = {}, .reply = call.reply, .id = call.id};
  try {
    route->run(*this, std::move(call));
  } catch (const engine::QueueFull& error) {
    net::Headers with = headers(kept, stats().weights_version);
    with.emplace_back("Retry-After", "1");
    kept.reply->send(429, std::move(with), "application/json", error_body(429, error.what()));
  } catch (const engine::QueueStopped& error) {
    send_error(kept, 503, error.what());
  } catch (const ApiError& error) {
    send_error(kept, error.status(), error.what(), error.param());
  } catch (const UserError& error) {
    send_error(kept, 400, error.what());
  } catch (const std::exception& error) {
    fault(kept, error);
    send_error(kept, 500, "internal error; the server's log has the reason");
  }
}

void Service::send_unauthorized(const Call& call) const {
  net::Headers with = headers(call, stats().weights_version);
  with.emplace_back("WWW-Authenticate", "Bearer");
  call.reply->send(401, std::move(with), "application/json",
                   error_body(401, "Unauthorized: expected the header Authorization: Bearer KEY"));
}

bool Service::has_key(const net::IncomingRequest& request) const {
  return same_secret(bearer_of(request.header("authorization")), options_.key);
}

void Service::watch(const Call& call, std::string path) {
  call.reply->on_done([this, counts = call.counts, id = call.id, client = call.request.client,
                       line = call.request.method + " " + loggable(call.request.path), path = std::move(path),
                       arrived = call.request.arrived](int status, std::int64_t bytes) {
    const double seconds = seconds_since(arrived);
    metrics_.answered(path, status, seconds);
    if (!options_.log) return;
    log(fmt::format("{} {} \"{}\" {} {} bytes {:.3f} s, {} prompt tokens, {} written", client, id, line,
                    status, bytes, seconds, counts->prompt_tokens.load(), counts->written_tokens.load()));
  });
}

void Service::submit(const Call& call, std::vector<engine::Job> jobs,
                     std::shared_ptr<engine::Listener> listener) {
  engine::Request request;
  request.jobs = std::move(jobs);
  request.listener = std::move(listener);
  request.deadline = call.request.arrived + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                std::chrono::duration<double>(options_.limits.seconds));
  const auto ticket = backend_.submit(std::move(request));
  call.reply->on_gone([cancel = backend_.cancel, ticket] { cancel(ticket); });
}

net::Headers Service::headers(const Call& call, std::int64_t weights_version) const {
  return {{"x-request-id", call.id}, {"x-weights-version", std::to_string(weights_version)}};
}

std::string Service::fingerprint(std::int64_t weights_version) const {
  return fmt::format("routeopd-{}-w{}", options_.version, weights_version);
}

void Service::send(const Call& call, int status, std::string content_type, std::string body,
                   std::optional<std::int64_t> weights_version) const {
  const std::int64_t version = weights_version ? *weights_version : stats().weights_version;
  call.reply->send(status, headers(call, version), std::move(content_type), std::move(body));
}

void Service::send_json(const Call& call, const OrderedJson& body,
                        std::optional<std::int64_t> weights_version) const {
  send(call, 200, "application/json", json_text(body), weights_version);
}

void Service::send_error(const Call& call, int status, std::string_view message, std::string_view param,
                         std::optional<std::int64_t> weights_version) const {
  send(call, status, "application/json", error_body(status, message, param), weights_version);
}

void Service::check_model(const std::optional<std::string>& name) const {
  if (!name || name->empty() || *name == options_.model.name) return;
  throw ApiError(404,
                 fmt::format("The model `{}` does not exist. Valid aliases: {}.", *name, options_.model.name),
                 "model");
}

net::Headers Service::own_answer(int status, std::string_view client) {
  metrics_.answered("other", status);
  const std::string id = new_request_id();
  log(fmt::format("{} {} \"-\" {}: the request did not arrive whole", client, id, status));
  return {{"x-request-id", id}, {"x-weights-version", std::to_string(stats().weights_version)}};
}

std::string Service::server_error_body(int status, std::string_view message) {
  return error_body(status, message);
}

void Service::fault(const Call& call, const std::exception& error) const {
  if (options_.faults) options_.faults(fmt::format("{} fault: {}", call.id, error.what()));
}

void Service::log(std::string_view line) const {
  if (options_.log) options_.log(line);
}

}  // namespace routeopd::serve
