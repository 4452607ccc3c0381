// A server that answers what a test tells it to, over real HTTP.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/engine/remote/connection.h"
#include "routeopd/net/http_server.h"

namespace routeopd::engine {

class StandInServer {
 public:
  struct Said {
    int status = 200;
    std::string body;
  };
  using Rule = std::function<Said(const Json& request)>;

  StandInServer()
      : server_({}, [this](net::IncomingRequest request, std::shared_ptr<net::Reply> reply) {
          const Said said = answer(request);
          reply->send(said.status, {}, "application/json", said.body);
        }) {}

  // Later rules for a path replace earlier ones; a path without one is a 404.
  void on(const std::string& path, Rule rule) {
    const std::scoped_lock lock(mutex_);
    rules_[path] = std::move(rule);
  }
  void on(const std::string& path, std::string body, int status = 200) {
    on(path, [=](const Json&) { return Said{status, body}; });
  }

  Connection connect() const {
    return {net::read_endpoint("http://127.0.0.1:" + std::to_string(server_.port())), "", {}};
  }

  // Paths asked for, in order, with what was sent.
  std::vector<std::pair<std::string, Json>> asked() const {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }

 private:
  Said answer(const net::IncomingRequest& request) {
    Rule rule;
    Json body = request.body.empty() ? Json() : Json::parse(request.body);
    {
      const std::scoped_lock lock(mutex_);
      asked_.emplace_back(request.path + (request.query.empty() ? "" : "?" + request.query), body);
      const auto found = rules_.find(request.path);
      if (found != rules_.end()) rule = found->second;
    }
    return rule ? rule(body) : Said{404, R"({"detail":"Not Found"})"};
  }

  mutable std::mutex mutex_;
  std::map<std::string, Rule> rules_;
  std::vector<std::pair<std::string, Json>> asked_;
  net::HttpServer server_;  // last: its threads use the others
};

}  // namespace routeopd::engine
