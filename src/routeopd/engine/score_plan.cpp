// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/score_plan.h"

#include <algorithm>

#include "routeopd/engine/kv_plan.h"

namespace routeopd::engine {
namespace {

std::vector<std::int32_t> new_blocks(std::int64_t count, std::int32_t& next) {
  std::vector<std::int32_t> blocks;
  for (std::int64_t i = 0; i < count; ++i) blocks.push_back(next++);
  return blocks;
}

}  // namespace

Portion portion_of(const Rollout& rollout, std::size_t first, std::int64_t most_blocks) {
  Portion portion;
  std::int32_t prompt = -1;
  std::int64_t prompt_at = -1;
  for (portion.end = first; portion.end < rollout.responses_B.size(); ++portion.end) {
    const Response& response = rollout.responses_B[portion.end];
    const std::vector<std::int32_t>& prompt_ids =
        rollout.prompt_ids_P[static_cast<std::size_t>(response.prompt)];
    const std::int64_t length = std::ssize(prompt_ids),
                       own = response.length - 1;  // the last token predicts nothing
    const bool is_new = response.prompt != prompt;
    const std::int64_t more = own + (is_new ? length : 0);
    const std::int64_t own_blocks =
        own > 0 ? blocks_for(length + own) - length / kernels::kBlockPositions : 0;
    const std::int64_t more_blocks = own_blocks + (is_new ? blocks_for(length) : 0);
    if (portion.end > first && portion.blocks + more_blocks > most_blocks) break;
    portion.tokens += more;
    if (is_new) {
      prompt = response.prompt;
      prompt_at = std::ssize(portion.passages);
      portion.passages.push_back(
          {.ids = prompt_ids, .table = new_blocks(blocks_for(length), portion.blocks)});
    }
    Passage passage{
        .ids = std::span(rollout.id_N)
                   .subspan(static_cast<std::size_t>(response.first_state), static_cast<std::size_t>(own)),
        .first_position = length,
        .table = {},
        .prompt = prompt_at,
        .shared = {}};
    if (own > 0) {
      Passage& before = portion.passages[static_cast<std::size_t>(prompt_at)];
      const std::int64_t whole = length / kernels::kBlockPositions;
      passage.table.assign(before.table.begin(), before.table.begin() + whole);
      const std::vector<std::int32_t> blocks = new_blocks(own_blocks, portion.blocks);
      passage.table.insert(passage.table.end(), blocks.begin(), blocks.end());
      // The block that the prompt fills in part is the response's own: it takes the prompt's last keys and
      // values too.
      for (std::int64_t token = whole * kernels::kBlockPositions; token < length; ++token)
        before.shared.push_back({token, blocks.front()});
    }
    portion.passages.push_back(std::move(passage));
  }
  return portion;
}

Chunk ChunkReader::next() {
  Chunk chunk;
  while (!done()) {
    const Passage& passage = portion_.passages[at_];
    const std::int64_t left = std::ssize(passage.ids) - read_;
    const std::int64_t count = std::min(left, most_ - chunk.batch.tokens());
    if (count == 0 && left > 0) break;
    if (passage.prompt >= 0 && read_ == 0) chunk.states.push_back({.prompt = passage.prompt});
    if (count > 0) add(chunk, passage, count);
    read_ += count;
    if (read_ < std::ssize(passage.ids)) break;
    ++at_;
    read_ = 0;
  }
  return chunk;
}

void ChunkReader::add(Chunk& chunk, const Passage& passage, std::int64_t count) {
  model::TokenBatch& batch = chunk.batch;
  const std::int64_t first =
      batch.add_run(passage.ids.subspan(static_cast<std::size_t>(read_), static_cast<std::size_t>(count)),
                    passage.first_position + read_, passage.table);
  for (const model::SharedWrite& write : passage.shared)
    if (write.token >= read_ && write.token < read_ + count)
      batch.shared_writes.push_back({first + write.token - read_, write.block});
  const auto want = [&](std::int64_t token) {
    batch.wanted_W.push_back(static_cast<std::int32_t>(token));
    return std::ssize(batch.wanted_W) - 1;
  };
  if (passage.prompt >= 0) {
    for (std::int64_t i = 0; i < count; ++i) chunk.states.push_back({.row = want(first + i)});
  } else if (read_ + count == std::ssize(passage.ids)) {
    chunk.prompt_ends.emplace_back(static_cast<std::int64_t>(at_), want(first + count - 1));
  }
}

}  // namespace routeopd::engine
