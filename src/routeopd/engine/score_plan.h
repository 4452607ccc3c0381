// What each forward of scoring reads: every prompt once for its responses, portions of responses that bound
// the keys and values held, and chunks of a portion that bound the activations of one forward.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "routeopd/model/inference/token_batch.h"
#include "routeopd/types/rollout.h"

namespace routeopd::engine {

// Consecutive tokens of one sequence that a portion reads: a prompt, or a response after its prompt.
struct Passage {
  std::span<const std::int32_t> ids;
  std::int64_t first_position = 0;
  std::vector<std::int32_t> table;  // blocks of keys and values
  // Of a response: the passage of its prompt, whose last state is the first of its own.
  std::int64_t prompt = -1;
  std::vector<model::SharedWrite> shared{};  // of a prompt: `token` counts in the passage
};

// Responses up to `end` as passages, prompts before their responses. It refers to the rollout's ids.
struct Portion {
  std::vector<Passage> passages;
  std::int64_t tokens = 0;
  std::int32_t blocks = 0;
  std::size_t end = 0;
};

// Responses from `first` on, of at most `most_blocks` blocks of keys and values, or one response.
Portion portion_of(const Rollout& rollout, std::size_t first, std::int64_t most_blocks);

// Where a state's hidden vector comes from, in the order of the states.
struct StateSource {
  std::int64_t row = -1;     // of this forward
  std::int64_t prompt = -1;  // or the passage of a prompt whose last state was kept
};

// The share of one forward.
struct Chunk {
  model::TokenBatch batch;
  std::vector<StateSource> states;
  std::vector<std::pair<std::int64_t, std::int64_t>> prompt_ends;  // passage, row
};

// Walks through a portion in chunks of a bounded number of tokens.
class ChunkReader {
 public:
  ChunkReader(const Portion& portion, std::int64_t most_tokens) : portion_(portion), most_(most_tokens) {}

  bool done() const { return at_ == portion_.passages.size(); }
  Chunk next();

 private:
  void add(Chunk& chunk, const Passage& passage, std::int64_t count);

  const Portion& portion_;
  std::int64_t most_;
  std::size_t at_ = 0;     // passage
  std::int64_t read_ = 0;  // of its tokens
};

}  // namespace routeopd::engine
