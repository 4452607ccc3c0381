// Several servers that share a list of work. Each takes the next piece when it has room, so a slow one takes
// less. A request that fails goes back to the list and to whichever server is free; a server that fails
// rests, longer each time, and is asked what it is before it gets work again. While none answers, the work
// waits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/engine/remote/server_api.h"

namespace routeopd::engine {

struct FleetOptions {
  std::vector<net::Endpoint> servers;
  std::string key;
  double patience = 600;          // seconds without any server that answers, after which run() gives up
  std::int32_t requests = 32;     // most in flight at a server
  double request_seconds = 3600;  // of one request
  double first_rest = 0.5, longest_rest = 8;  // seconds, doubled with each failure in a row
  // Hears when a server fails and answers again, from any thread, one at a time; may be empty.
  std::function<void(const std::string& line)> tell{};
};

// The weights that servers must have before they get work.
struct ServedWeights {
  std::string directory;
  std::int64_t version = 0;
};

class Fleet {
 public:
  // One piece of work at one server. It throws what ServerApi throws, and StaleWeights; it may be called
  // again, at another server, after it threw, and never after it returned.
  using Work = std::function<void(Connection& server, const ServerInfo& info, std::size_t item)>;

  // `api` must outlive it. `name` is what messages call the servers: "rollout", "teacher".
  Fleet(const ServerApi& api, std::string name, FleetOptions options, ServerNeeds needs);
  ~Fleet();

  // Asks every server what it is. Throws UserError where one of them cannot be used or reached.
  void identify();

  // Whether one of those that answered wants a tied head under its own name.
  bool own_head() const;

  // Weights that every server takes over before its next work; those that answer do so now, at once. `old`
  // weights may be removed when this returns.
  void take_weights(const ServedWeights& weights);

  // All pieces of work 0 … items - 1, each once. Throws the first error that another try cannot mend, and
  // UserError when no server answered for options.patience. A signal ends it while no server answers.
  void run(std::size_t items, const Work& work);

  // What was repeated since the last call, and why.
  Counts take_counts();

  void tell_to(std::function<void(const std::string& line)> tell) { options_.tell = std::move(tell); }

 private:
  struct Server;
  class Shift;

  std::shared_ptr<const ServerInfo> make_ready(Server& server, Connection& connection);
  std::unique_ptr<Connection> connect(const Server& server) const;
  void check_same_model(Connection& connection, const ServerInfo& info);
  void tell(const std::string& line);
  void tell_fails(Server& server, const std::string& trouble, const std::string& message);
  void tell_answers(Server& server);
  void count(const std::string& name);

  const ServerApi& api_;
  std::string name_;
  FleetOptions options_;
  ServerNeeds needs_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::optional<ServedWeights> weights_;
  std::atomic<bool> cancelled_ = false;
  std::mutex telling_;   // of options_.tell
  std::mutex counting_;  // of what follows
  Counts counts_;
  std::vector<float> best_of_first_;  // what the first server says of a fixed text; empty: not asked
};

}  // namespace routeopd::engine
