// Continuous batching: which tokens the next forward reads. Responses join and leave at every step. A step
// holds the next token of every response that is being written, and as much of waiting prompts as the token
// budget leaves. A response takes a block of keys and values when it reaches one; when none is free, the
// response that began last gives its blocks back and reads its tokens again later. So the memory never
// exceeds the blocks of the pool, and the oldest response always continues.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "routeopd/engine/kv_plan.h"
#include "routeopd/engine/sequence.h"
#include "routeopd/model/inference/token_batch.h"

namespace routeopd::engine {

// A prompt that is read once for its n responses.
struct PromptReading {
  std::int32_t prompt = 0;
  std::vector<std::int32_t> table;
  std::int64_t read = 0;
  std::size_t begun = 0;        // responses that have begun
  std::vector<float> hidden_H;  // of its last token; empty until that is read
};

// A state that tokens are drawn from after the forward: one response's next token, or several responses'
// first ones.
struct SampledState {
  std::int64_t row = -1;                  // of the forward's hidden states
  const PromptReading* prompt = nullptr;  // or the state at the end of a prompt that was read earlier
  std::vector<Sequence*> sequences{};
};

struct StepPlan {
  model::TokenBatch batch;  // empty when responses only begin
  std::vector<SampledState> states;
  std::vector<std::pair<PromptReading*, std::int64_t>> ends;  // prompts whose last token is read, and its row

  bool empty() const { return batch.tokens() == 0 && states.empty(); }
};

class Scheduler {
 public:
  struct Options {
    std::int64_t step_tokens = 1024;
    std::int32_t n = 1;
    std::span<const std::vector<std::int32_t>> samples_P{};  // as in Sampling
    std::function<void(std::int32_t from, std::int32_t to)> copy_block;
    std::function<void(Sequence&)> begin;  // fills what a new response needs besides its prompt
  };

  // Prompts whose blocks, with those of one whole response, do not fit into the pool must have been refused.
  Scheduler(std::span<const Prompt> prompts, BlockPool& pool, Options options);

  bool done() const;

  // The next forward. Its tokens count as read from here on.
  StepPlan plan();

  // After the forward, [W, H]: keeps the states that responses begin from.
  void keep_hidden(const StepPlan& plan, std::span<const float> hidden_WH);

  // Takes out the responses that have ended, in the order in which they began.
  std::vector<std::unique_ptr<Sequence>> take_ended();

  std::int64_t evictions() const { return evictions_; }

 private:
  StepPlan try_plan();
  void relieve();
  void grow_running();
  void read_running(std::int64_t& budget, StepPlan& plan);
  void resume_waiting();
  void read_prompts(std::int64_t& budget, StepPlan& plan);
  void begin_responses(StepPlan& plan);
  Sequence& begin_response(PromptReading& reading, bool hand_over);
  bool fits(std::int64_t blocks) const;
  PromptReading* youngest_holder();
  void drop(PromptReading& reading);
  const std::vector<std::int32_t>& ids_of(const PromptReading& reading) const;
  std::size_t responses_of(const PromptReading& reading) const;

  std::span<const Prompt> all_;
  BlockPool& pool_;
  Options options_;
  std::size_t next_prompt_ = 0;  // the first whose reading has not begun
  // All oldest first.
  std::deque<std::unique_ptr<PromptReading>> prompts_;  // being read, or with responses to begin
  std::deque<std::unique_ptr<Sequence>> waiting_;       // evicted
  std::vector<std::unique_ptr<Sequence>> running_;
  bool hand_over_ = false;  // the next response takes over its prompt's blocks
  std::int64_t evictions_ = 0;
};

}  // namespace routeopd::engine
