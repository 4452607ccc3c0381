// Who holds which block of keys and values. A block may have several holders: the responses to one prompt share those
// that the prompt fills.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace routeopd::engine {

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
