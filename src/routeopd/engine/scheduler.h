// Continuous batching: which tokens the next forward reads. Jobs join and leave at every step. A step holds
// the next token of every response that is being written, as much of given responses as the token budget
// leaves, and then of waiting prompts. A response takes a block of keys and values when it reaches one; when
// none is free, the response that began last gives its blocks back and reads its tokens again later. So the
// memory never exceeds the blocks of the pool, and the oldest response always continues.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "routeopd/engine/job.h"
#include "routeopd/engine/kv_plan.h"
#include "routeopd/engine/sequence.h"
#include "routeopd/model/inference/token_batch.h"

namespace routeopd::engine {

// A prompt that is read once for its job's responses.
struct PromptReading {
  const Job* job = nullptr;
  std::vector<std::int32_t> table{};
  std::int64_t read = 0;
  std::int64_t taken = 0;         // rows of its own that were handed over
  std::size_t begun = 0;          // responses that have begun: those to write, then those given
  std::vector<float> hidden_H{};  // of its last token; empty until that is read
};

// A state that tokens are drawn from after the forward: one response's next token, or several responses'
// first ones.
struct SampledState {
  std::int64_t row = -1;                  // of the forward's hidden states
  const PromptReading* prompt = nullptr;  // or the state at the end of a prompt that was read earlier
  std::vector<Sequence*> sequences{};
};

// Consecutive rows of a job whose values are to be read off states.
struct ReadRows {
  const Job* job = nullptr;
  std::int64_t first = 0, count = 0;  // rows of the job
  std::int64_t state = -1;            // the first one's, of the forward's hidden states
  const PromptReading* prompt =
      nullptr;  // or one row, of the state at the end of a prompt that was read earlier
};

struct StepPlan {
  model::TokenBatch batch;  // empty when responses only begin
  std::vector<SampledState> states;
  std::vector<ReadRows> reads;
  std::vector<std::pair<PromptReading*, std::int64_t>> ends;  // prompts whose last token is read, and its row

  bool empty() const { return batch.tokens() == 0 && states.empty() && reads.empty(); }
};

class Scheduler {
 public:
  struct Options {
    std::int64_t step_tokens = 1024;
    std::function<void(std::int32_t from, std::int32_t to)> copy_block;
    std::function<void(Sequence&)> begin;  // fills what a new response needs besides its prompt
  };

  Scheduler(BlockPool& pool, Options options);

  // The job stays where it is until it has ended. It asks for something, and blocks_of(job) fit into the
  // pool.
  void add(const Job& job);

  // Between two steps: forgets the jobs and gives back their blocks. One pass over all that is under way.
  void remove(std::span<const Job> jobs);

  // No job has anything left to do.
  bool done() const;

  // The next forward. Its tokens count as read from here on.
  StepPlan plan();

  // After the forward, [W, H]: keeps the states that responses begin from.
  void keep_hidden(const StepPlan& plan, std::span<const float> hidden_WH);

  // Takes out the responses that have ended, in the order in which they began.
  std::vector<std::unique_ptr<Sequence>> take_ended();

  std::int64_t evictions() const { return evictions_; }
  std::int64_t running() const { return std::ssize(running_); }

 private:
  StepPlan try_plan();
  void relieve();
  void grow_running();
  void read_running(std::int64_t& budget, StepPlan& plan);
  void resume_waiting();
  void read_prompts(std::int64_t& budget, StepPlan& plan);
  void take_prompt_rows(PromptReading& reading, std::int64_t first_token, std::int64_t count, StepPlan& plan);
  void begin_responses(StepPlan& plan);
  bool may_begin(const PromptReading& reading) const;
  Sequence& begin_response(PromptReading& reading, bool hand_over);
  bool fits(std::int64_t blocks) const;
  PromptReading* youngest_holder();
  void drop(PromptReading& reading);

  BlockPool& pool_;
  Options options_;
  // All oldest first.
  std::deque<const Job*> jobs_;                         // whose reading has not begun
  std::deque<std::unique_ptr<PromptReading>> prompts_;  // being read, or with responses to begin
  std::deque<std::unique_ptr<Sequence>> waiting_;       // evicted
  std::vector<std::unique_ptr<Sequence>> running_;
  bool hand_over_ = false;  // the next response takes over its prompt's blocks
  std::int64_t evictions_ = 0;
};

}  // namespace routeopd::engine
