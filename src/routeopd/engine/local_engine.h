// The built-in engine: continuous batching over blocks of keys and values, and scoring over packed sequences
// with the streaming head, on the CPU. It reads the weights of the model it was given through a copy laid out
// for it, which refresh() renews. Batch-invariant: what a sequence gives does not depend, to the last bit, on
// what is beside it, on the limits below, or on the number of threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "routeopd/engine/engine.h"
#include "routeopd/engine/job.h"
#include "routeopd/engine/job_runner.h"
#include "routeopd/engine/kv_plan.h"
#include "routeopd/model/heads/streaming_head.h"
#include "routeopd/model/inference/inference_decoder.h"
#include "routeopd/model/model.h"
#include "routeopd/tokenizer/tokenizer.h"

namespace routeopd::engine {

struct LocalOptions {
  // Most tokens of one forward: bounds the activations and the responses under way.
  std::int64_t step_tokens = 1024;
  // Most memory for keys and values; 0: a quarter of what is free.
  std::int64_t kv_bytes = 0;
  // Positions whose keys and values scoring holds at a time, or those of one response.
  std::int64_t score_tokens = 8192;
  model::WeightStorage storage = model::WeightStorage::kExact;
  const tokenizer::Tokenizer* tokenizer = nullptr;  // for stop strings; must outlive the engine
};

// How many new tokens to ask for: `wanted`, or where that is 0 as many as the model's positions leave after
// the longest prompt, at most `most`.
std::int64_t longest_response(const model::Model& model, std::span<const Prompt> prompts, std::int64_t wanted,
                              std::int64_t most);

// What the last generate() did.
struct GenerationStats {
  KvPlan kv;
  std::int64_t peak_blocks = 0;
  std::int64_t steps = 0;
  std::int64_t tokens_read = 0;  // prompts once each, responses, and what was read again
  std::int64_t evictions = 0;

  // Steps that read one token of each response and no prompt, sampling included.
  std::int64_t decode_steps = 0;
  double decode_seconds = 0;
};

class LocalEngine : public Engine {
 public:
  // `real_ids`: the tokenizer's, at most the rows of the embedding. Any of config.eos_token_ids ends a
  // response.
  LocalEngine(const model::Model& model, std::int32_t real_ids, LocalOptions options = {});

  void refresh() override;
  std::int32_t real_ids() const override { return real_ids_; }
  Capabilities capabilities() const override { return {.hidden_states = true, .entropy = true}; }
  std::string name() const override { return "local"; }

  const model::Model& model() const { return model_; }

  // For those who bring jobs of their own. Throws UserError for one that can never be served: ids outside the
  // vocabulary, more tokens than the model has positions, an address out of range, stop strings without a
  // tokenizer. Any thread may call it.
  void check_job(const Job& job) const;

  // All blocks that LocalOptions::kv_bytes allows, and a runner of jobs on blocks. The engine serves nobody
  // else while the runner is in use.
  KvPlan kv_plan() const;
  std::unique_ptr<JobRunner> make_runner(const KvPlan& kv);

  // Lays out the weights now, where that is still to be done: after refresh(), before the next step of a
  // runner.
  void take_over_weights() { prepare(0); }

  const GenerationStats& last_generation() const { return stats_; }
  std::int64_t kv_bytes_held() const {
    return storage_ ? storage_->blocks() * model::KvStorage::block_bytes(model_.config) : 0;
  }

 protected:
  Rollout write_responses(std::span<const Prompt> prompts, const Sampling& sampling, const Capture& capture,
                          const Watch& watch) override;
  Answer read_responses(const Rollout& rollout, const ScoreRequest& request) override;
  Answer gather_values(const Rollout& rollout, std::span<const std::int32_t> ids_NG,
                       std::int64_t columns) override;

 private:
  void prepare(std::int64_t blocks);

  model::Model model_;  // handles to the caller's tensors
  std::int32_t real_ids_;
  LocalOptions options_;
  // Packed from the weights when they are first needed.
  std::unique_ptr<model::InferenceDecoder> decoder_;
  std::unique_ptr<model::StreamingHead> head_;
  bool stale_ = false;  // the weights have changed since they were packed
  std::unique_ptr<model::KvStorage> storage_;
  at::Tensor rounded_head_VH_;  // for gather(), where the weights are held in bfloat16
  GenerationStats stats_;
};

}  // namespace routeopd::engine
