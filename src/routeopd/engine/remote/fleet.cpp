// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/remote/fleet.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <thread>
#include <utility>

#include "routeopd/base/interrupt.h"
#include "routeopd/net/retry.h"

namespace routeopd::engine {
namespace {

using Clock = std::chrono::steady_clock;

// A piece of work that failed so often, and not because nobody was there, will fail again.
constexpr int kMostTries = 5;

// Of what a server says of itself: vLLM may list all ids of a vocabulary at one position.
constexpr std::int64_t kMostBytesOfIdentity = 64LL << 20U;

// Nats between what two servers say of the best ids of a fixed text, in the median: the rounding of 16 bits
// is well below it, another size or stage of training well above. Neighbouring checkpoints pass.
constexpr float kSameModel = 0.125F;

// A server that fails again and again with the same trouble is spoken of so often.
constexpr std::chrono::seconds kToldAgain{60};

// Silence that is longer than a server's first rests.
constexpr double kSilence = 5;  // seconds

Clock::duration seconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
}

// Why a request failed, where another try may mend it.
struct Trouble {
  std::string name;  // for the counts
  std::string message;
  std::optional<double> rest;      // seconds that the server asked for
  bool server_may_differ = false;  // it may have been restarted: to be asked again what it is
  bool not_there = false;          // nobody took the request: says nothing of it, however often
  bool cut = false;                // may be a server that went away, or what this request does to it
};

// What the exception that is being handled means; none: another try would not help.
std::optional<Trouble> trouble_of_current() {
  using Kind = net::HttpFailure::Kind;
  try {
    throw;
  } catch (const net::HttpFailure& failure) {
    if (failure.kind() == Kind::kTooLarge) return Trouble{"bad_answers", failure.what(), {}, true};
    if (!net::is_transient(failure.kind())) return std::nullopt;
    const char* const name = failure.kind() == Kind::kTimeout ? "timeouts"
                             : failure.kind() == Kind::kCut   ? "cut_answers"
                                                              : "no_connection";
    return Trouble{
        name, failure.what(), {}, true, failure.kind() == Kind::kConnect, failure.kind() == Kind::kCut};
  } catch (const ServerError& error) {
    if (!net::is_transient(error.status())) return std::nullopt;
    const bool busy = error.status() == 429 || error.status() == 503;
    const bool behind = error.status() == 502 || error.status() == 504;  // a proxy answers for a server
    return Trouble{busy ? "too_many_requests" : "server_errors", error.what(), error.retry_after(), behind,
                   busy || behind};
  } catch (const BadAnswer& error) {
    return Trouble{"bad_answers", error.what(), {}, true};
  } catch (const StaleWeights& error) {
    return Trouble{"stale_weights", error.what(), {}, true};
  } catch (...) {
    return std::nullopt;
  }
}

}  // namespace

struct Fleet::Server {
  net::Endpoint endpoint;
  std::vector<std::unique_ptr<Connection>> connections;  // one per request in flight

  std::mutex readying;                     // one at a time asks it what it is
  std::shared_ptr<const ServerInfo> info;  // null: not asked yet
  std::optional<std::int64_t> version;     // of the weights that it was given
  std::atomic<bool> in_doubt = false;      // it may be another one than `info` tells

  // For the log.
  std::map<std::string, Clock::time_point> told;  // when, by kind of trouble
  bool last_told_failing = false;

  // Of the shift under way.
  int failures = 0;     // in a row
  bool trying = false;  // after a failure, one request at a time
  Clock::time_point rests_until{};
};

// One call of run(): the list, and who works on it.
class Fleet::Shift {
 public:
  Shift(Fleet& fleet, std::size_t items, const Work& work) : fleet_(fleet), work_(work), tries_(items, 0) {
    for (std::size_t item = 0; item < items; ++item) waiting_.push_back(item);
    for (auto& server : fleet_.servers_) {
      server->failures = 0;
      server->trying = false;
      server->rests_until = {};
    }
  }

  void run() {
    fleet_.cancelled_ = false;
    const std::size_t slots = slots_per_server();
    for (auto& server : fleet_.servers_)
      while (server->connections.size() < slots) server->connections.push_back(fleet_.connect(*server));
    {
      std::vector<std::jthread> workers;  // joined at the end of this block, however it ends
      try {
        for (auto& server : fleet_.servers_)
          for (std::size_t slot = 0; slot < slots; ++slot)
            workers.emplace_back(
                [this, &server = *server, slot] { serve(server, *server.connections[slot]); });
      } catch (const std::exception&) {  // the system gives no further thread
        failed_for_good(std::current_exception());
      }
      watch();
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  // With several servers, half of an even share at a time: what is left goes to those that are faster.
  std::size_t slots_per_server() const {
    const std::size_t servers = fleet_.servers_.size(), items = waiting_.size();
    const auto most = static_cast<std::size_t>(fleet_.options_.requests);
    if (servers == 1) return std::min(most, items);
    return std::min(most, std::max<std::size_t>(1, (items + 2 * servers - 1) / (2 * servers)));
  }

  void serve(Server& server, Connection& connection) {
    while (const auto item = next(server)) {
      bool begun = false;
      try {
        const std::shared_ptr<const ServerInfo> info = fleet_.make_ready(server, connection);
        begun = begin();
        work_(connection, *info, *item);
        succeeded(server);
      } catch (const Interrupted&) {
        failed_for_good(std::current_exception());
      } catch (...) {
        const std::exception_ptr error = std::current_exception();
        const std::optional<Trouble> trouble = trouble_of_current();
        if (trouble) {
          failed(server, *item, *trouble, error, begun);
        } else {
          failed_for_good(error);
        }
      }
    }
  }

  // The next piece for this server; none where all is done or given up.
  std::optional<std::size_t> next(Server& server) {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (error_ || done_ == tries_.size()) return std::nullopt;
      const bool rested = Clock::now() >= server.rests_until && !(server.failures > 0 && server.trying);
      if (!waiting_.empty() && rested) break;
      changed_.wait_for(lock, std::chrono::milliseconds(waiting_.empty() ? 200 : 20));
    }
    const std::size_t item = waiting_.front();
    waiting_.pop_front();
    server.trying = server.failures > 0;
    return item;
  }

  bool begin() {
    const std::lock_guard lock(mutex_);
    ++under_way_;
    return true;
  }

  void succeeded(Server& server) {
    const std::lock_guard lock(mutex_);
    ++done_;
    --under_way_;
    fleet_.tell_answers(server);
    server.failures = 0;
    server.trying = false;
    silent_since_.reset();
    told_silent_ = false;
    changed_.notify_all();
  }

  void failed(Server& server, std::size_t item, const Trouble& trouble, const std::exception_ptr& error,
              bool begun) {
    fleet_.count(trouble.name);
    const std::lock_guard lock(mutex_);
    waiting_.push_front(item);
    if (begun) --under_way_;
    server.trying = false;
    ++server.failures;
    fleet_.tell_fails(server, trouble.name, trouble.message);
    last_trouble_ = trouble.message;
    const auto& options = fleet_.options_;
    const net::RetryRule rule{.first_wait = options.first_rest, .longest_wait = options.longest_rest};
    server.rests_until =
        Clock::now() + seconds(net::wait_after(rule, server.failures - 1, trouble.rest, item));
    if (trouble.server_may_differ) server.in_doubt = true;
    const bool silent = std::all_of(fleet_.servers_.begin(), fleet_.servers_.end(),
                                    [](const auto& one) { return one->failures > 0; });
    if (silent && !silent_since_) silent_since_ = Clock::now();
    const bool servers_own = trouble.not_there || (trouble.cut && silent);
    if (!servers_own && ++tries_[item] >= kMostTries && !error_) error_ = error;
    changed_.notify_all();
  }

  void failed_for_good(const std::exception_ptr& error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
    changed_.notify_all();
  }

  // Until all is done or given up; then requests under way are ended.
  void watch() {
    std::unique_lock lock(mutex_);
    while (!error_ && done_ < tries_.size()) {
      changed_.wait_for(lock, std::chrono::milliseconds(100));
      if (!silent_since_ || error_) continue;
      if (pending_interrupt() != 0) error_ = std::make_exception_ptr(Interrupted(pending_interrupt()));
      if (under_way_ > 0) continue;
      const double patience = fleet_.options_.patience;
      const Clock::duration silence = Clock::now() - *silent_since_;
      if (!told_silent_ && silence > seconds(std::min(kSilence, patience / 2))) {
        told_silent_ = true;
        fleet_.tell(fmt::format("no server answers; the step waits for up to {} s", patience));
      }
      if (silence > seconds(patience) && !error_)
        error_ =
            std::make_exception_ptr(UserError("[{}] urls: no server answered for {} s ({}); start one, then "
                                              "go on with --resume, or raise patience",
                                              fleet_.name_, patience, last_trouble_));
    }
    if (error_) fleet_.cancelled_ = true;
    changed_.notify_all();
  }

  Fleet& fleet_;
  const Work& work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::size_t> waiting_;
  std::vector<int> tries_;  // that failed, of each piece
  std::size_t done_ = 0;
  // Requests at servers that were there when they began: not silence, and ended by their own deadline. One
  // that still waits for a server to say what it is does not count, or silence would never end.
  std::size_t under_way_ = 0;
  std::optional<Clock::time_point> silent_since_;  // every server's last request failed
  bool told_silent_ = false;
  std::string last_trouble_;
  std::exception_ptr error_;
};

Fleet::Fleet(const ServerApi& api, std::string name, FleetOptions options, ServerNeeds needs)
    : api_(api), name_(std::move(name)), options_(std::move(options)), needs_(needs) {
  for (const net::Endpoint& endpoint : options_.servers) {
    servers_.push_back(std::make_unique<Server>());
    servers_.back()->endpoint = endpoint;
  }
}

Fleet::~Fleet() = default;

std::unique_ptr<Connection> Fleet::connect(const Server& server) const {
  const net::HttpLimits limits{
      .total = std::chrono::milliseconds(static_cast<std::int64_t>(options_.request_seconds * 1000))};
  auto connection = std::make_unique<Connection>(server.endpoint, options_.key, limits);
  connection->cancel_by(&cancelled_);
  return connection;
}

void Fleet::count(const std::string& name) {
  const std::lock_guard lock(counting_);
  ++counts_[name];
}

Counts Fleet::take_counts() {
  const std::lock_guard lock(counting_);
  return std::exchange(counts_, {});
}

std::shared_ptr<const ServerInfo> Fleet::make_ready(Server& server, Connection& connection) {
  const std::lock_guard lock(server.readying);
  if (server.in_doubt.exchange(false)) server.info.reset();
  if (!server.info) {
    connection.limit_answer(kMostBytesOfIdentity);
    const auto info = std::make_shared<const ServerInfo>(api_.identify(connection, needs_));
    if (!needs_.reloads) check_same_model(connection, *info);
    server.version = info->weights;
    server.info = info;
  }
  if (weights_ && server.version != weights_->version) {
    api_.reload(connection, *server.info, weights_->directory, weights_->version);
    server.version = weights_->version;
  }
  return server.info;
}

// Servers of a model that does not learn must have the same weights, all of them, also after a restart. What
// is no number, or was not sent, is not compared: such states are left out where they are scored.
void Fleet::check_same_model(Connection& connection, const ServerInfo& info) {
  const std::int64_t length = std::min<std::int64_t>(16, needs_.positions - 2);
  if (needs_.real_ids < 2 || length < 1) return;
  const std::vector<std::int32_t> prompt = {0};
  std::vector<std::int32_t> text;
  for (std::int64_t i = 1; i <= length; ++i)
    text.push_back(static_cast<std::int32_t>(i * 7919 % needs_.real_ids));
  const StateValues said =
      api_.read(connection, info, {.prompt_ids = prompt, .responses = {text}, .k = 1}).answer.values;
  std::vector<float> best, apart;
  for (std::size_t n = 0; n < std::min(said.logsumexp_N.size(), said.top_logits_NK.size()); ++n)
    best.push_back(said.top_logits_NK[n] - said.logsumexp_N[n]);
  const std::lock_guard lock(counting_);
  if (best_of_first_.empty()) best_of_first_ = best;
  for (std::size_t n = 0; n < std::min(best.size(), best_of_first_.size()); ++n)
    if (const float distance = std::abs(best[n] - best_of_first_[n]); !std::isnan(distance))
      apart.push_back(distance);
  if (apart.empty()) return;
  const auto middle = apart.begin() + std::ssize(apart) / 2;
  std::nth_element(apart.begin(), middle, apart.end());
  if (*middle > kSameModel)
    throw UnfitServer(
        "[{}] urls: {} answers as another model than the first server did ({:.2f} nats apart); expected the "
        "same weights at all of them, also after a restart",
        name_, connection.url(), *middle);
}

// A log that cannot be written is not these threads' trouble: the step's own lines fail next.
void Fleet::tell(const std::string& line) {
  const std::lock_guard lock(telling_);
  if (!options_.tell) return;
  try {
    options_.tell(fmt::format("{}: {}", name_, line));
  } catch (const std::exception&) {
    options_.tell = {};
  }
}

void Fleet::tell_fails(Server& server, const std::string& trouble, const std::string& message) {
  const auto now = Clock::now();
  const auto [at, first] = server.told.try_emplace(trouble, now);
  if (!first && now - at->second < kToldAgain) return;
  at->second = now;
  server.last_told_failing = true;
  tell(message);
}

void Fleet::tell_answers(Server& server) {
  if (std::exchange(server.last_told_failing, false))
    tell(fmt::format("{} answers again", server.endpoint.url));
}

void Fleet::identify() {
  cancelled_ = false;
  for (auto& server : servers_) {
    make_ready(*server, *connect(*server));
  }
}

bool Fleet::own_head() const {
  return std::any_of(servers_.begin(), servers_.end(), [](const auto& server) {
    const std::scoped_lock lock(server->readying);
    return server->info && server->info->own_head;
  });
}

void Fleet::run(std::size_t items, const Work& work) {
  if (items > 0) Shift(*this, items, work).run();
}

void Fleet::take_weights(const ServedWeights& weights) {
  weights_ = weights;
  cancelled_ = false;
  std::vector<std::exception_ptr> errors(servers_.size());
  std::vector<std::jthread> threads;
  for (std::size_t s = 0; s < servers_.size(); ++s)
    threads.emplace_back([this, s, &errors] {
      try {
        make_ready(*servers_[s], *connect(*servers_[s]));
      } catch (...) {
        const std::exception_ptr error = std::current_exception();
        const std::optional<Trouble> trouble = trouble_of_current();
        if (trouble) {  // run() waits for it, and gives it the weights then
          count(trouble->name);
          servers_[s]->in_doubt = true;
          tell_fails(*servers_[s], trouble->name, trouble->message);
        } else {
          errors[s] = error;
        }
      }
    });
  threads.clear();  // joins them
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace routeopd::engine
