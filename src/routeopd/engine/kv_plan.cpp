// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/kv_plan.h"

#include <algorithm>

#include "routeopd/base/display.h"
#include "routeopd/base/error.h"
#include "routeopd/base/system.h"
#include "routeopd/model/inference/kv_storage.h"

namespace routeopd::engine {
namespace {

constexpr std::int64_t kLeastBytes = 64 << 20;

}  // namespace

KvPlan plan_kv(const formats::ModelConfig& config, std::span<const Prompt> prompts, const Sampling& sampling,
               std::int64_t limit, std::int64_t step_tokens) {
  KvPlan plan;
  plan.block_bytes = model::KvStorage::block_bytes(config);
  if (limit == 0) limit = std::max(kLeastBytes, available_bytes() / 4);
  const std::int64_t affordable = limit / plan.block_bytes;
  // At most step_tokens responses are written at a time, beside the prompts that are read for the next ones.
  std::vector<std::int64_t> responses;  // blocks of each prompt with one response
  std::int64_t all = 0;                 // with every response at its longest, all at a time
  for (const Prompt& prompt : prompts) {
    const std::int64_t tokens =
        std::ssize(prompt.ids) + sampling.max_new_tokens - 1;  // the last one is never read
    const std::int64_t blocks = blocks_for(std::max<std::int64_t>(tokens, std::ssize(prompt.ids)));
    if (blocks > affordable) {
      throw UserError(
          "prompt {}: its {} tokens and max_new_tokens = {} take {} of keys and values, but kv_memory is {}; "
          "try a smaller max_new_tokens (--max-new) or a larger kv_memory (--kv-memory)",
          prompt.id, prompt.ids.size(), sampling.max_new_tokens, byte_text(blocks * plan.block_bytes),
          byte_text(limit));
    }
    responses.push_back(blocks);
    all += blocks_for(std::ssize(prompt.ids));  // held until its last response begins
  }
  std::sort(responses.begin(), responses.end(), std::greater<>());
  std::int64_t places = step_tokens;
  for (std::size_t i = 0; i < responses.size() && places > 0; ++i) {
    const std::int64_t here = std::min<std::int64_t>(places, sampling.n);
    all += here * responses[i];
    places -= here;
  }
  plan.blocks = std::min(all + 1, affordable);
  return plan;
}

BlockPool::BlockPool(std::int64_t blocks) : holders_(static_cast<std::size_t>(blocks)) {
  for (std::int64_t i = blocks; i > 0; --i) free_.push_back(static_cast<std::int32_t>(i - 1));
}

std::int32_t BlockPool::take() {
  ROUTEOPD_INVARIANT(!free_.empty());
  const std::int32_t block = free_.back();
  free_.pop_back();
  holders_[static_cast<std::size_t>(block)] = 1;
  peak_ = std::max(peak_, total() - free());
  return block;
}

void BlockPool::release(std::int32_t block) {
  std::int32_t& holders = holders_[static_cast<std::size_t>(block)];
  ROUTEOPD_INVARIANT(holders > 0);
  if (--holders == 0) free_.push_back(block);
}

void BlockPool::release_all(std::vector<std::int32_t>& table) {
  for (const std::int32_t block : table) release(block);
  table.clear();
}

}  // namespace routeopd::engine
