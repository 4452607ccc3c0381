// Runs jobs on the local engine's decoder and head, one step at a time: the scheduler says what to read, the
// decoder reads it, the head gives distributions, tokens are drawn and values taken. Jobs may be added and
// removed between any two steps; what one of them gives does not depend, to the last bit, on the others.
//
// Shapes: W hidden states wanted of a forward, S states that tokens are drawn from, C rows that are read, R
// rows of a job, K of a top-k, G ids gathered per row, H hidden size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "routeopd/engine/job.h"
#include "routeopd/engine/scheduler.h"
#include "routeopd/model/heads/streaming_head.h"
#include "routeopd/model/inference/inference_decoder.h"

namespace routeopd::engine {

// What one step brought.
struct StepResult {
  // Responses of jobs with `tell_tokens` that have a new token. Those that ended with it are in `ended`.
  std::vector<const Sequence*> advanced;
  // Responses that were written to their end, in the order in which they began.
  std::vector<std::unique_ptr<Sequence>> ended;
  // Jobs that have nothing left to do, and what was read of them.
  struct Finished {
    const Job* job = nullptr;
    StateValues read{};
    std::vector<std::int32_t> rank_R{};
  };
  std::vector<Finished> finished;
  std::int64_t tokens_read = 0;
  std::int64_t tokens_written = 0;
  bool only_decoded = false;  // one token of each response and no prompt
};

class JobRunner {
 public:
  struct Parts {
    model::InferenceDecoder& decoder;
    model::StreamingHead& head;
    model::KvStorage& storage;
    std::int64_t blocks = 0;  // of the storage
    std::int64_t step_tokens = 1024;
    std::vector<std::int32_t> eos{};
    const tokenizer::Tokenizer* tokenizer = nullptr;  // for stop strings
  };

  explicit JobRunner(Parts parts);

  // Jobs were checked by the engine, fit into the blocks, and stay where they are until they are finished or
  // removed.
  void add(const Job& job);
  void remove(std::span<const Job> jobs);  // those of one request, which lie together

  bool idle() const { return jobs_.empty(); }

  // One forward. Nothing happens where it is idle.
  StepResult step();

  std::int64_t evictions() const { return scheduler_.evictions(); }
  std::int64_t responses_running() const { return scheduler_.running(); }
  const BlockPool& pool() const { return pool_; }

 private:
  // What is left to do of a job, and what was read so far.
  struct Progress {
    std::int64_t rows_left = 0;
    std::size_t responses_left = 0;  // to write
    StateValues read{};
    std::vector<std::int32_t> rank_R{};
  };

  void take_tokens(const StepPlan& plan, const at::Tensor& hidden_WH, StepResult& result);
  void read_rows(const StepPlan& plan, const at::Tensor& hidden_WH);
  void read_together(const std::vector<const ReadRows*>& plain, const at::Tensor& hidden_WH);
  void read_with_ranks(const ReadRows& rows, const at::Tensor& hidden_CH);
  void store(const ReadRows& rows, const model::HeadScores& scores, std::int64_t at,
             const at::Tensor& hidden_CH);
  at::Tensor hidden_of(const ReadRows& rows, const at::Tensor& hidden_WH) const;

  Parts parts_;
  BlockPool pool_;
  Scheduler scheduler_;
  model::HeldLogits held_;  // its memory is used again
  std::unordered_map<const Job*, Progress> jobs_;
};

}  // namespace routeopd::engine
