// Blocks of keys and values: how many a run takes, known before it begins and held under a limit, and who
// holds which.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "routeopd/engine/engine.h"
#include "routeopd/formats/model_config.h"
#include "routeopd/kernels/block_attention.h"

namespace routeopd::engine {

constexpr std::int64_t blocks_for(std::int64_t tokens) {
  return (tokens + kernels::kBlockPositions - 1) / kernels::kBlockPositions;
}

struct KvPlan {
  std::int64_t block_bytes = 0;
  std::int64_t blocks = 0;  // reserved: no more are ever in use

  std::int64_t bytes() const { return blocks * block_bytes; }
};

// `limit` in bytes; 0: a quarter of the memory that is free, at least 64 MB. Throws UserError with the
// numbers when a prompt and one response to it can never fit.
KvPlan plan_kv(const formats::ModelConfig& config, std::span<const Prompt> prompts, const Sampling& sampling,
               std::int64_t limit, std::int64_t step_tokens);

// A block may have several holders: the responses to one prompt share those that the prompt fills.
class BlockPool {
 public:
  explicit BlockPool(std::int64_t blocks);

  std::int32_t take();  // a block that is free; there must be one
  void share(std::int32_t block) { ++holders_[static_cast<std::size_t>(block)]; }
  void release(std::int32_t block);

  // Gives back all blocks of a table and empties it.
  void release_all(std::vector<std::int32_t>& table);

  std::int64_t free() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t total() const { return static_cast<std::int64_t>(holders_.size()); }
  std::int64_t peak() const { return peak_; }  // most blocks held at a time

 private:
  std::vector<std::int32_t> free_;  // the block last given back is taken first: its memory is warm
  std::vector<std::int32_t> holders_;
  std::int64_t peak_ = 0;
};

}  // namespace routeopd::engine
