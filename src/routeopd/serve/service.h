// What a server does with a request: keys are checked, the route is found, errors become answers, and every
// answer says which weights it is of. Adding an endpoint is one Route.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/base/json_fwd.h"
#include "routeopd/engine/request_queue.h"
#include "routeopd/net/http_server.h"
#include "routeopd/serve/metrics.h"
#include "routeopd/serve/served_model.h"
#include "routeopd/serve/worker.h"

namespace routeopd::serve {

// The engine's queue as the service uses it, so that tests can stand in for it.
struct Backend {
  std::function<engine::RequestQueue::Ticket(engine::Request)> submit;
  std::function<void(engine::RequestQueue::Ticket)> cancel;
  std::function<engine::QueueStats()> stats;
};

inline Backend backend_of(engine::RequestQueue& queue) {
  return {[&queue](engine::Request request) { return queue.submit(std::move(request)); },
          [&queue](engine::RequestQueue::Ticket ticket) { queue.cancel(ticket); },
          [&queue] { return queue.stats(); }};
}

struct ServiceOptions {
  ServedModel model;
  Limits limits;
  std::string version;                                // of this program
  std::string key;                                    // of clients; empty: none is asked for
  std::function<void(std::string_view line)> log;     // a line per request; may be empty
  std::function<void(std::string_view line)> faults;  // of this program; may be empty
  bool log_prompts = false;                           // and the text of prompts
};

// One request under way. Counts are for the log.
struct Call {
  net::IncomingRequest request;
  std::shared_ptr<net::Reply> reply;
  std::string id;
  struct Counts {
    std::atomic<std::int64_t> prompt_tokens = 0, written_tokens = 0;
  };
  std::shared_ptr<Counts> counts = std::make_shared<Counts>();
};

class Service;

// Answers at once or keeps the call and answers later. What it throws is answered with an error: ApiError
// with its status, engine::QueueFull with 429, QueueStopped with 503, any other UserError with 400.
using RouteFunction = std::function<void(Service&, Call)>;

struct Route {
  std::string method, path;
  RouteFunction run;
};

// The queue must have been stopped, and the HTTP server too, before a service is destroyed.
class Service {
 public:
  // With the endpoints of OpenAI's and vLLM's interfaces.
  Service(ServiceOptions options, Backend backend);

  void add(Route route) { routes_.push_back(std::move(route)); }

  // For net::HttpServer. The service must outlive it.
  net::Handler handler();

  // For net::ServerOptions::error_body.
  static std::string server_error_body(int status, std::string_view message);

  // For net::ServerOptions::own_answer: counted and logged as other answers are.
  net::Headers own_answer(int status, std::string_view client);

  const ServedModel& model() const { return options_.model; }
  const Limits& limits() const { return options_.limits; }
  const ServiceOptions& options() const { return options_; }
  Metrics& metrics() { return metrics_; }
  Worker& worker() { return worker_; }
  engine::QueueStats stats() const { return backend_.stats(); }
  std::int64_t started() const { return started_; }  // since 1970

  // Hands jobs to the engine for a call; they are cancelled when its client goes away. Throws QueueFull and
  // UserError as RequestQueue::submit does.
  void submit(const Call& call, std::vector<engine::Job> jobs, std::shared_ptr<engine::Listener> listener);

  // x-request-id and x-weights-version.
  net::Headers headers(const Call& call, std::int64_t weights_version) const;

  // "routeopd-0.1.0-w3".
  std::string fingerprint(std::int64_t weights_version) const;

  // Whole answers. Without a version it is that of now.
  void send(const Call& call, int status, std::string content_type, std::string body,
            std::optional<std::int64_t> weights_version = {}) const;
  void send_json(const Call& call, const OrderedJson& body,
                 std::optional<std::int64_t> weights_version = {}) const;
  void send_error(const Call& call, int status, std::string_view message, std::string_view param = {},
                  std::optional<std::int64_t> weights_version = {}) const;

  // Throws ApiError with 404 unless it is the name of the model, or none.
  void check_model(const std::optional<std::string>& name) const;

  void log(std::string_view line) const;
  void fault(const Call& call, const std::exception& error) const;

 private:
  void handle(Call call);
  bool has_key(const net::IncomingRequest& request) const;
  void send_unauthorized(const Call& call) const;
  void watch(const Call& call, std::string path);

  ServiceOptions options_;
  Backend backend_;
  std::vector<Route> routes_;
  Metrics metrics_;
  std::int64_t started_;
  Worker worker_;  // last: what it does uses the rest
};

// The status of an answer whose request did not end well.
int status_of(engine::Ending ending);

}  // namespace routeopd::serve
