// Requests of many clients to one local engine. One thread owns the engine: it takes requests from a queue,
// puts their jobs into its batch, and tells each client what became of its own. Everything here may be called
// from any thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "routeopd/engine/job.h"
#include "routeopd/engine/local_engine.h"

namespace routeopd::engine {

// A token that was just written, for Job::tell_tokens.
struct WrittenToken {
  std::size_t job = 0;  // in the request
  std::int32_t sample = 0;
  std::int32_t id = 0;
  float logprob = 0;
  float logsumexp = 0;                      // NaN unless capture.k > 0
  std::span<const std::int32_t> top_ids{};  // capture.k of them; valid during the call
  std::span<const float> top_logits{};
  bool ended = false;
  Finish finish = Finish::kLength;  // once ended
};

enum class Ending {
  kDone,
  kExpired,    // past its deadline
  kCancelled,  // by cancel()
  kNonFinite,  // the model gives NaN or infinite logits: asking again does not help
  kFailed,     // of the engine
  kStopped,    // the queue was stopped
};

struct Outcome {
  Ending ending = Ending::kDone;
  std::string message;                 // why, unless done
  std::int64_t weights_version = 0;    // of all values
  std::vector<JobResult> results_J{};  // of the request's jobs, where done
};

// Called on the engine's thread: short, and without throwing. begun() comes once, before the first token;
// ended() once and last, also where the request never began.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void begun(std::int64_t weights_version) = 0;
  virtual void token(const WrittenToken& token) = 0;
  virtual void ended(Outcome outcome) = 0;
};

struct Request {
  std::vector<Job> jobs;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::shared_ptr<Listener> listener;
};

// The queue is full: the client should come again later.
class QueueFull : public UserError {
 public:
  using UserError::UserError;
};

// The queue takes no more requests: it is being stopped.
class QueueStopped : public UserError {
 public:
  QueueStopped() : UserError("the server is shutting down") {}
};

struct QueueStats {
  std::int64_t waiting = 0, running = 0;  // requests
  std::int64_t responses_running = 0;     // being written or read
  std::int64_t blocks_total = 0, blocks_used = 0;
  std::int64_t block_bytes = 0;
  std::int64_t tokens_read = 0, tokens_written = 0, steps = 0, evictions = 0;  // since the start
  std::int64_t cancelled = 0;                                                  // requests, since the start
  std::int64_t weights_version = 0;
};

class RequestQueue {
 public:
  using Ticket = std::uint64_t;

  struct Options {
    std::int64_t most_requests = 256;             // waiting and running
    std::int64_t weights_version = 0;             // of the weights that the engine has now
    std::int64_t most_result_bytes = 4LL << 30U;  // of answers that are being made, at their longest
  };

  // The engine must outlive the queue, and is used by no one else while the queue lives. Its blocks of keys
  // and values are reserved here.
  RequestQueue(LocalEngine& engine, Options options);
  ~RequestQueue();  // stop(0 s)
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  // Throws QueueFull, or UserError for a request that can never be served. The listener is told the rest.
  Ticket submit(Request request);

  // The request ends as cancelled, within a step if it is under way. Nothing happens where it has ended.
  void cancel(Ticket ticket);

  // Runs `change` on the engine's thread between requests: those that were submitted before it end first,
  // those after it begin with the new weights, which count as `weights_version` from then on. Returns when it
  // is done; throws what `change` threw, in which case the weights are as they were.
  void between_requests(std::function<void(LocalEngine&)> change, std::int64_t weights_version);

  // Runs `call` on the engine's thread between two steps, whatever is being served, and returns when it is
  // done; throws what it threw. It does not change the weights.
  void between_steps(const std::function<void(LocalEngine&)>& call);

  // Takes no more requests. Those that are there have `patience` to end; then they are ended as stopped.
  void stop(std::chrono::milliseconds patience);

  QueueStats stats() const;
  const KvPlan& kv() const { return kv_; }

 private:
  struct Active;
  // A request that waits, or a change of the weights.
  struct Entry {
    std::unique_ptr<Active> active{};
    std::function<void(LocalEngine&)> change{};
    std::shared_ptr<std::promise<void>> changed{};
    std::int64_t weights_version = 0;
  };

  void serve();
  void renew_runner();
  void end_cancelled();
  void end_expired();
  void make_calls();
  void begin_waiting();
  void begin(Active& active);
  void change_weights(Entry& entry);
  void step();
  void tell_token(const Sequence& sequence);
  void end(Active& active, Ending ending, std::string message);
  void tell(Active& active, Ending ending, std::string message);

  LocalEngine& engine_;
  Options options_;
  KvPlan kv_;

  mutable std::mutex mutex_;  // of what stands below it, down to stats_
  std::condition_variable wake_;
  std::deque<Entry> waiting_;
  std::vector<Ticket> cancelled_;
  std::vector<std::packaged_task<void()>> calls_;
  Ticket last_ticket_ = 0;
  std::int64_t promised_bytes_ = 0;  // of the results of requests that wait or run
  bool stopping_ = false;
  std::chrono::steady_clock::time_point stop_at_{};
  QueueStats stats_;

  // Of the engine's thread alone.
  std::unique_ptr<JobRunner> runner_;
  std::int64_t earlier_evictions_ = 0;  // of runners before this one
  std::int64_t version_ = 0;
  std::vector<std::unique_ptr<Active>> active_;
  std::unordered_map<const Job*, Active*> by_job_;
  std::unordered_map<const Job*, std::vector<std::unique_ptr<Sequence>>> sequences_;  // that have ended

  std::mutex join_mutex_;
  std::thread thread_;
};

}  // namespace routeopd::engine
