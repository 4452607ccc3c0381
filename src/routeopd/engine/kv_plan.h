// Blocks of keys and values: how many a run takes, known before it begins and held under a limit, and who
// holds which.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "routeopd/engine/job.h"
#include "routeopd/formats/model_config.h"
#include "routeopd/kernels/block_attention.h"

namespace routeopd::engine {

constexpr std::int64_t blocks_for(std::int64_t tokens) {
  return (tokens + kernels::kBlockPositions - 1) / kernels::kBlockPositions;
}

// Most blocks that a job needs at a time to get on: its prompt with its longest response.
std::int64_t blocks_of(const Job& job);

struct KvPlan {
  std::int64_t block_bytes = 0;
  std::int64_t blocks = 0;  // reserved: no more are ever in use
  std::int64_t limit = 0;   // bytes that may be reserved

  std::int64_t bytes() const { return blocks * block_bytes; }
};

// As many as `limit` bytes hold; 0: a quarter of the memory that is free, at least 64 MB.
KvPlan all_blocks(const formats::ModelConfig& config, std::int64_t limit);

// Throws UserError with the numbers where a job can never fit into `blocks`.
void check_fits(const Job& job, const KvPlan& kv);

// Blocks for these jobs at once, as far as `limit` allows, as above. At most `step_tokens` responses are
// under way at a time. Throws as check_fits().
KvPlan plan_kv(const formats::ModelConfig& config, std::span<const Job> jobs, std::int64_t limit,
               std::int64_t step_tokens);

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
