//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/block_pool.h"

#include <algorithm>

#include "routeopd/base/error.h"

namespace routeopd::engine {

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
