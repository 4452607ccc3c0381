// The built-in engine: batched generation with a key-value cache, and scoring over packed sequences with the streaming
// head. It shares the weights of the model it was given.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "routeopd/engine/engine.h"
#include "routeopd/model/heads/streaming_head.h"
#include "routeopd/model/model.h"

namespace routeopd::engine {

struct LocalLimits {
  std::int64_t sequences = 512;      // written at a time
  std::int64_t score_tokens = 8192;  // read at a time
};

// How many new tokens to ask for: `wanted`, or where that is 0 as many as the model's positions leave after the longest
// prompt, at most `most`.
std::int64_t longest_response(const model::Model& model, std::span<const Prompt> prompts, std::int64_t wanted,
                              std::int64_t most);

class LocalEngine : public Engine {
 public:
  // `real_ids` of the tokenizer, at most the rows of the embedding. Any of config.eos_token_ids ends a response.
  LocalEngine(const model::Model& model, std::int32_t real_ids, LocalLimits limits = {});

  Rollout generate(std::span<const Prompt> prompts, const Sampling& sampling, const Capture& capture,
                   const Watch& watch = {}) override;
  StateValues score(const Rollout& rollout, const ScoreRequest& request) override;
  std::vector<float> gather(const Rollout& rollout, std::span<const std::int32_t> ids_NG,
                            std::int64_t columns) override;
  void refresh() override;
  std::int32_t real_ids() const override { return real_ids_; }

  const model::Model& model() const { return model_; }

 private:
  void check_prompts(std::span<const Prompt> prompts, const Sampling& sampling) const;
  const model::StreamingHead& streaming_head();

  model::Model model_;  // handles to the caller's tensors
  std::int32_t real_ids_;
  LocalLimits limits_;
  std::unique_ptr<model::StreamingHead> streaming_head_;  // packed from the weights; none until it is needed
};

}  // namespace routeopd::engine
