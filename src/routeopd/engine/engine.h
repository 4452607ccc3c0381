// Where rollouts and scores come from. The interface is narrow enough for a server to stand behind it: prompts in,
// responses out; states and ids in, values out; new weights taken over.
//
// Shapes: N states of a rollout, K columns of top-k, G ids gathered a state, H hidden size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "routeopd/engine/sampler.h"
#include "routeopd/types/prompt.h"
#include "routeopd/types/rollout.h"

namespace routeopd::engine {

struct Sampling {
  std::int32_t n = 1;  // responses a prompt
  Decoding decoding{};
  std::int64_t max_new_tokens = 256;
  std::uint64_t seed = 42;
  std::uint32_t step = 0;  // address of the random numbers, beside prompt, sample and position

  // A response also ends with the token that completes one of these in its text (special tokens left out).
  std::vector<std::string> stop{};
  bool ignore_eos = false;  // go on to max_new_tokens
  bool discard = false;     // responses are told to the watch and not kept: the rollout has none

  // Which of the n responses of each prompt to write, ascending, at least one of each; empty: all of every prompt.
  std::vector<std::vector<std::int32_t>> samples_P{};
};

// What to keep of the behaviour distribution, at temperature 1 whatever the decoding.
struct Capture {
  std::int32_t k = 0;  // top-k a state; 0: none
  bool hidden = false;
};

// One model's values at the states of a rollout.
struct StateValues {
  std::int32_t columns = 0;  // K
  std::vector<std::int32_t> top_ids_NK;
  std::vector<float> top_logits_NK;
  std::vector<float> logsumexp_N;
  std::vector<float> gathered_NG;  // logits at the ids given
  std::int64_t hidden_size = 0;
  std::vector<float> hidden_NH;  // where asked for
  std::int64_t tokens_read = 0;
};

struct ScoreRequest {
  std::int32_t k = 0;                             // 0: no top-k
  std::span<const std::int32_t> gather_ids_NG{};  // -1 pads
  std::int64_t gather_columns = 0;                // G
  bool hidden = false;
};

// Told of every response as it ends, in that order: how many are done, and the response as a rollout of its own (whose
// Response::prompt counts in the prompts given; its prompt_ids_P is empty). What it throws ends the run.
using Watch = std::function<void(std::int64_t done, std::int64_t total, const Rollout& response)>;

class Engine {
 public:
  virtual ~Engine() = default;

  // n responses for each prompt, in the order of the prompts.
  virtual Rollout generate(std::span<const Prompt> prompts, const Sampling& sampling, const Capture& capture,
                           const Watch& watch = {}) = 0;

  // Reads every response once, after its prompt, and every prompt once for its responses.
  virtual StateValues score(const Rollout& rollout, const ScoreRequest& request) = 0;

  // Logits at ids_NG (-1 pads: NaN) of states whose hidden states this engine's model captured.
  virtual std::vector<float> gather(const Rollout& rollout, std::span<const std::int32_t> ids_NG,
                                    std::int64_t columns) = 0;

  // Takes over what the learner changed in the weights.
  virtual void refresh() = 0;

  // Real ids: the tokenizer's, not the padded rows.
  virtual std::int32_t real_ids() const = 0;
};

}  // namespace routeopd::engine
