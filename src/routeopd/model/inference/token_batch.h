// What one forward of the inference decoder reads: runs of consecutive tokens of different sequences, each
// with the blocks of keys and values of its sequence. A run of one token is a step of decoding; a run of many
// is a part of a prompt, or a response that is scored.
//
// Shapes: T tokens, W of them wanted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "routeopd/kernels/block_attention.h"

namespace routeopd::model {

struct TokenRun {
  std::int64_t first_token = 0;  // in the batch
  std::int64_t tokens = 0;
  std::int64_t first_position = 0;  // in the sequence
  // Where its table begins in TokenBatch::blocks; entry i holds positions 16 i to 16 i + 15.
  std::int64_t first_block = 0;
};

struct TokenBatch {
  std::vector<std::int32_t> ids_T;
  std::vector<std::int32_t> positions_T;
  std::vector<std::int32_t> block_T;  // the block that takes the token's key and value
  std::vector<TokenRun> runs;
  std::vector<std::int32_t> blocks;
  std::vector<std::int32_t> wanted_W;  // tokens whose hidden states are asked for, ascending

  std::int64_t tokens() const { return static_cast<std::int64_t>(ids_T.size()); }

  // Tokens `ids` of a sequence from `first_position` on. Returns the place of the first one in the batch.
  std::int64_t add_run(std::span<const std::int32_t> ids, std::int64_t first_position,
                       std::span<const std::int32_t> table) {
    const std::int64_t first = tokens();
    runs.push_back({first, static_cast<std::int64_t>(ids.size()), first_position,
                    static_cast<std::int64_t>(blocks.size())});
    blocks.insert(blocks.end(), table.begin(), table.end());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto position = static_cast<std::int32_t>(first_position) + static_cast<std::int32_t>(i);
      ids_T.push_back(ids[i]);
      positions_T.push_back(position);
      block_T.push_back(table[static_cast<std::size_t>(position / kernels::kBlockPositions)]);
    }
    return first;
  }
};

}  // namespace routeopd::model
