// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/request_queue.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "routeopd/base/display.h"
#include "routeopd/base/error.h"

namespace routeopd::engine {

using Clock = std::chrono::steady_clock;

namespace {

// Most that the results of a job take in memory.
std::int64_t result_bytes(const Job& job, std::int64_t hidden_size) {
  const std::int64_t read = 2 + 2 * std::int64_t{job.k} + job.gather_columns + (job.hidden ? hidden_size : 0);
  const std::int64_t written = 4 + 2 * std::int64_t{job.capture.k} + (job.capture.hidden ? hidden_size : 0);
  return static_cast<std::int64_t>(sizeof(float)) *
         (job.rows() * read + std::ssize(job.samples) * job.sampling.max_new_tokens * written);
}

}  // namespace

// A request under way. The engine's thread alone touches it once it has begun.
struct RequestQueue::Active {
  Ticket ticket = 0;
  Request request;
  std::vector<JobResult> results_J;
  std::size_t jobs_left = 0;
  std::int64_t weights_version = 0;
  std::int64_t result_bytes = 0;

  std::size_t place_of(const Job* job) const { return static_cast<std::size_t>(job - request.jobs.data()); }
};

RequestQueue::RequestQueue(LocalEngine& engine, Options options)
    : engine_(engine), options_(options), kv_(engine.kv_plan()), version_(options.weights_version) {
  if (kv_.blocks < 1) throw UserError("kv_memory: holds no block of keys and values; give it more");
  stats_ = {.blocks_total = kv_.blocks, .block_bytes = kv_.block_bytes, .weights_version = version_};
  // The engine computes on its own thread from the first moment on: see base/run_apart.h.
  std::promise<void> ready;
  thread_ = std::thread([&, this] {
    try {
      runner_ = engine_.make_runner(kv_);
      ready.set_value();
    } catch (...) {
      ready.set_exception(std::current_exception());
      return;
    }
    serve();
  });
  try {
    ready.get_future().get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

RequestQueue::~RequestQueue() {
  stop(std::chrono::milliseconds(0));
}

RequestQueue::Ticket RequestQueue::submit(Request request) {
  ROUTEOPD_INVARIANT(request.listener != nullptr && !request.jobs.empty());
  for (const Job& job : request.jobs) {
    engine_.check_job(job);
    check_fits(job, kv_);
  }
  std::int64_t bytes = 0;
  for (const Job& job : request.jobs) bytes += result_bytes(job, engine_.model().config.hidden_size);
  if (bytes > options_.most_result_bytes)
    throw UserError("the answer may take {}, and {} is the limit; ask for less at a time", byte_text(bytes),
                    byte_text(options_.most_result_bytes));
  const std::lock_guard lock(mutex_);
  if (stopping_) throw QueueStopped();
  const std::int64_t there = std::ssize(waiting_) + stats_.running;
  if (there >= options_.most_requests)
    throw QueueFull("{} requests are being served or wait already; try again later", there);
  if (promised_bytes_ > 0 && promised_bytes_ + bytes > options_.most_result_bytes)
    throw QueueFull("the answers that are promised already may take {}; try again later",
                    byte_text(promised_bytes_));
  promised_bytes_ += bytes;
  auto active = std::make_unique<Active>();
  active->ticket = ++last_ticket_;
  active->result_bytes = bytes;
  active->request = std::move(request);
  waiting_.push_back({.active = std::move(active)});
  ++stats_.waiting;
  wake_.notify_one();
  return last_ticket_;
}

void RequestQueue::cancel(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  cancelled_.push_back(ticket);
  wake_.notify_one();
}

void RequestQueue::between_requests(std::function<void(LocalEngine&)> change, std::int64_t weights_version) {
  auto ended = std::make_shared<std::promise<void>>();
  std::future<void> done = ended->get_future();
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) throw QueueStopped();
    waiting_.push_back({.change = std::move(change), .changed = ended, .weights_version = weights_version});
    wake_.notify_one();
  }
  done.get();
}

void RequestQueue::between_steps(const std::function<void(LocalEngine&)>& call) {
  std::packaged_task<void()> task([&] { call(engine_); });
  std::future<void> done = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) throw QueueStopped();
    calls_.push_back(std::move(task));
    wake_.notify_one();
  }
  done.get();
}

void RequestQueue::make_calls() {
  std::vector<std::packaged_task<void()>> calls;
  {
    const std::lock_guard lock(mutex_);
    calls.swap(calls_);
  }
  for (auto& call : calls) call();
}

void RequestQueue::stop(std::chrono::milliseconds patience) {
  {
    const std::lock_guard lock(mutex_);
    const auto until = Clock::now() + patience;
    stop_at_ = stopping_ ? std::min(stop_at_, until) : until;
    stopping_ = true;
    wake_.notify_one();
  }
  const std::lock_guard joining(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

QueueStats RequestQueue::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

// The engine's thread: takes what came since the last step, makes a step, tells what it brought.
void RequestQueue::serve() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      // Something to do: a request that may begin, a change whose turn it is, a cancellation, the end.
      wake_.wait(lock, [this] {
        return !active_.empty() || !waiting_.empty() || !cancelled_.empty() || !calls_.empty() || stopping_;
      });
      if (stopping_ && ((waiting_.empty() && active_.empty()) || Clock::now() >= stop_at_)) break;
    }
    make_calls();
    end_cancelled();
    end_expired();
    begin_waiting();
    try {
      if (!active_.empty()) step();
    } catch (const std::exception& error) {  // memory, LibTorch
      while (!active_.empty()) end(*active_.front(), Ending::kFailed, error.what());
      renew_runner();
    }
    const std::lock_guard lock(mutex_);
    stats_.running = std::ssize(active_);
    stats_.blocks_used = runner_->pool().total() - runner_->pool().free();
    stats_.evictions = earlier_evictions_ + runner_->evictions();
    stats_.responses_running = runner_->responses_running();
  }
  make_calls();
  while (!active_.empty()) end(*active_.front(), Ending::kStopped, "the server is shutting down");
  std::deque<Entry> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(waiting_);
    stats_.waiting = stats_.running = stats_.responses_running = 0;
    stats_.blocks_used = runner_->pool().total() - runner_->pool().free();
  }
  for (Entry& entry : left) {
    if (entry.active)
      tell(*entry.active, Ending::kStopped, "the server is shutting down");
    else
      entry.changed->set_exception(std::make_exception_ptr(QueueStopped()));
  }
}

// After a fault, when nothing is in the batch. Where even that fails, for memory, the old one goes on: it has
// given back the blocks of all its jobs.
void RequestQueue::renew_runner() {
  try {
    std::unique_ptr<JobRunner> fresh = engine_.make_runner(kv_);
    earlier_evictions_ += runner_->evictions();
    runner_ = std::move(fresh);
  } catch (const std::exception&) {
  }
}

void RequestQueue::end_cancelled() {
  std::vector<Ticket> tickets;
  std::vector<Entry> ended;
  {
    const std::lock_guard lock(mutex_);
    tickets.swap(cancelled_);
    for (const Ticket ticket : tickets) {
      const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const Entry& entry) {
        return entry.active && entry.active->ticket == ticket;
      });
      if (found == waiting_.end()) continue;
      ended.push_back(std::move(*found));
      waiting_.erase(found);
      --stats_.waiting;
    }
  }
  for (const Entry& entry : ended) tell(*entry.active, Ending::kCancelled, "cancelled");
  for (const Ticket ticket : tickets) {
    const auto found =
        std::find_if(active_.begin(), active_.end(), [&](const auto& one) { return one->ticket == ticket; });
    if (found != active_.end()) end(**found, Ending::kCancelled, "cancelled");
  }
}

void RequestQueue::end_expired() {
  const auto now = Clock::now();
  std::vector<Entry> ended;
  {
    const std::lock_guard lock(mutex_);
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      if (at->active && at->active->request.deadline <= now) {
        ended.push_back(std::move(*at));
        at = waiting_.erase(at);
        --stats_.waiting;
      } else {
        ++at;
      }
    }
  }
  constexpr const char* kLate = "the request's time was over before its answer was complete";
  for (const Entry& entry : ended) tell(*entry.active, Ending::kExpired, kLate);
  for (std::size_t i = active_.size(); i-- > 0;)
    if (active_[i]->request.deadline <= now) end(*active_[i], Ending::kExpired, kLate);
}

// Requests join the batch in the order in which they came; a change of the weights waits until nobody is
// being served, and holds back those behind it.
void RequestQueue::begin_waiting() {
  while (true) {
    Entry entry;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty() || (waiting_.front().change && !active_.empty())) return;
      entry = std::move(waiting_.front());
      waiting_.pop_front();
      if (entry.active) {
        --stats_.waiting;
        ++stats_.running;
      }
    }
    if (entry.change) {
      change_weights(entry);
      continue;
    }
    Active& active = *active_.emplace_back(std::move(entry.active));
    try {
      begin(active);
    } catch (const std::exception& error) {  // memory
      end(active, Ending::kFailed, error.what());
    }
  }
}

void RequestQueue::begin(Active& active) {
  active.weights_version = version_;
  active.jobs_left = active.request.jobs.size();
  active.results_J.resize(active.jobs_left);
  active.request.listener->begun(version_);
  for (const Job& job : active.request.jobs) {
    by_job_.emplace(&job, &active);
    Rollout& written = active.results_J[active.place_of(&job)].written;
    written.prompt_ids_P.push_back(job.prompt_ids);
    written.columns = std::min(job.capture.k, engine_.real_ids());
    written.hidden_size = job.capture.hidden ? engine_.model().config.hidden_size : 0;
    if (job.responses() > 0 || job.rows() > 0) {
      runner_->add(job);
    } else {
      --active.jobs_left;  // a text of one token, of which nothing is to be read
    }
  }
  if (active.jobs_left == 0) end(active, Ending::kDone, {});
}

void RequestQueue::change_weights(Entry& entry) {
  try {
    entry.change(engine_);
    engine_.take_over_weights();
    version_ = entry.weights_version;
    {
      const std::lock_guard lock(mutex_);
      stats_.weights_version = version_;
    }
    entry.changed->set_value();
  } catch (...) {
    entry.changed->set_exception(std::current_exception());
  }
}

void RequestQueue::step() {
  StepResult result = runner_->step();
  {
    const std::lock_guard lock(mutex_);
    stats_.tokens_read += result.tokens_read;
    stats_.tokens_written += result.tokens_written;
    ++stats_.steps;
  }
  for (const Sequence* const sequence : result.advanced) tell_token(*sequence);
  // A request whose responses fail ends as a whole; what else the step brought of it is dropped.
  for (auto& sequence : result.ended) {
    const auto found = by_job_.find(sequence->job);
    if (found == by_job_.end()) continue;
    Active& active = *found->second;
    if (sequence->failed) {
      end(active, Ending::kNonFinite, failure_of(*sequence));
      continue;
    }
    sequences_[sequence->job].push_back(std::move(sequence));
  }
  for (StepResult::Finished& one : result.finished) {
    const auto found = by_job_.find(one.job);
    if (found == by_job_.end()) continue;
    Active& active = *found->second;
    JobResult& job = active.results_J[active.place_of(one.job)];
    job.read = std::move(one.read);
    job.rank_R = std::move(one.rank_R);
    auto responses = sequences_.extract(one.job);
    if (!responses.empty()) {
      std::sort(responses.mapped().begin(), responses.mapped().end(),
                [](const auto& a, const auto& b) { return a->sample < b->sample; });
      for (const auto& sequence : responses.mapped()) append_response(*sequence, 0, job.written);
    }
    if (--active.jobs_left == 0) end(active, Ending::kDone, {});
  }
}

void RequestQueue::tell_token(const Sequence& sequence) {
  const auto found = by_job_.find(sequence.job);
  if (found == by_job_.end()) return;
  const Active& active = *found->second;
  const auto k = static_cast<std::size_t>(std::min(sequence.job->capture.k, engine_.real_ids()));
  active.request.listener->token(
      {.job = active.place_of(sequence.job),
       .sample = sequence.sample,
       .id = sequence.tokens.back(),
       .logprob = sequence.logprobs.back(),
       .logsumexp = k > 0 ? sequence.logsumexps.back() : std::numeric_limits<float>::quiet_NaN(),
       .top_ids = std::span(sequence.top_ids).last(k),
       .top_logits = std::span(sequence.top_logits).last(k),
       .ended = sequence.ended,
       .finish = sequence.finish});
}

// Takes the request out of the batch and tells its listener.
void RequestQueue::end(Active& active, Ending ending, std::string message) {
  runner_->remove(active.request.jobs);
  for (const Job& job : active.request.jobs) {
    by_job_.erase(&job);
    sequences_.erase(&job);
  }
  const auto found =
      std::find_if(active_.begin(), active_.end(), [&](const auto& one) { return one.get() == &active; });
  const std::unique_ptr<Active> ended = std::move(*found);
  active_.erase(found);
  {
    // Before the answer is told, so that who has it does not see its blocks in use.
    const std::lock_guard lock(mutex_);
    stats_.running = std::ssize(active_);
    stats_.blocks_used = runner_->pool().total() - runner_->pool().free();
  }
  tell(*ended, ending, std::move(message));
}

void RequestQueue::tell(Active& active, Ending ending, std::string message) {
  Outcome outcome{.ending = ending, .message = std::move(message), .weights_version = active.weights_version};
  if (ending == Ending::kDone) outcome.results_J = std::move(active.results_J);
  {
    const std::lock_guard lock(mutex_);
    promised_bytes_ -= active.result_bytes;
    if (ending == Ending::kCancelled) ++stats_.cancelled;
  }
  active.request.listener->ended(std::move(outcome));
}

}  // namespace routeopd::engine
