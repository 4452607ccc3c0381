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

std::int64_t blocks_of(const Job& job) {
  const std::int64_t prompt = std::ssize(job.prompt_ids);
  std::int64_t tokens = prompt;  // the last token of a response is never read
  if (!job.samples.empty()) tokens = std::max(tokens, prompt + job.sampling.max_new_tokens - 1);
  for (const auto& response : job.given) tokens = std::max(tokens, prompt + std::ssize(response) - 1);
  return blocks_for(tokens);
}

KvPlan all_blocks(const formats::ModelConfig& config, std::int64_t limit) {
  if (limit == 0) limit = std::max(kLeastBytes, available_bytes() / 4);
  const std::int64_t block_bytes = model::KvStorage::block_bytes(config);
  return {.block_bytes = block_bytes, .blocks = limit / block_bytes, .limit = limit};
}

void check_fits(const Job& job, const KvPlan& kv) {
  const std::int64_t blocks = blocks_of(job);
  if (blocks <= kv.blocks) return;
  throw UserError(
      "{}: its {} tokens and max_new_tokens = {} take {} of keys and values, but kv_memory is {}; try a "
      "smaller max_new_tokens (--max-new) or a larger kv_memory (--kv-memory)",
      job.name, job.prompt_ids.size(), job.samples.empty() ? 0 : job.sampling.max_new_tokens,
      byte_text(blocks * kv.block_bytes), byte_text(kv.limit));
}

KvPlan plan_kv(const formats::ModelConfig& config, std::span<const Job> jobs, std::int64_t limit,
               std::int64_t step_tokens) {
  KvPlan plan = all_blocks(config, limit);
  // At most step_tokens responses are under way at a time, beside the prompts that are read for the next
  // ones.
  std::vector<std::pair<std::int64_t, std::int64_t>> responses;  // blocks of each with its prompt; how many
  std::int64_t all = 1;  // with every response at its longest, all at a time
  for (const Job& job : jobs) {
    check_fits(job, plan);
    all += blocks_for(std::ssize(job.prompt_ids));  // held until its last response begins
    responses.emplace_back(blocks_of(job), std::ssize(job.samples) + std::ssize(job.given));
  }
  std::sort(responses.begin(), responses.end(), std::greater<>());
  std::int64_t places = step_tokens;
  for (std::size_t i = 0; i < responses.size() && places > 0; ++i) {
    const std::int64_t here = std::min(places, responses[i].second);
    all += here * responses[i].first;
    places -= here;
  }
  plan.blocks = std::min(all, plan.blocks);
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
