// Byte-pair encoding: the "model" of tokenizer.json. A word's symbols, its bytes or its characters, are
// joined pair by pair, the merge of lowest rank first and the leftmost among equals, until no pair has a
// merge.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "routeopd/base/json_fwd.h"
#include "routeopd/tokenizer/merge_queue.h"
#include "routeopd/tokenizer/vocabulary.h"

namespace routeopd::tokenizer {

class Bpe {
 public:
  // `byte_level`: words are bytes, spelled as in byte_level.h; otherwise characters. Throws UserError naming
  // the field of the file's model that is wrong or not supported.
  Bpe(const TokenizerFile& file, bool byte_level);

  // Buffers for merging long words, kept to save allocations. One per thread.
  struct Scratch {
    std::vector<std::int32_t> symbols;
    std::vector<std::uint16_t> lengths;
    MergeHeap heap;
    MergeBuckets buckets;

    // Frees what a very long word took.
    void trim();
  };

  // Appends the ids of one word. What has no symbol in the vocabulary becomes byte tokens or the unknown
  // token if the model has them, and is dropped otherwise, as in `tokenizers`. O(n log n) in the word's
  // length.
  void append_ids(std::string_view word, std::vector<std::int32_t>& ids, Scratch& scratch) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  std::size_t merge_count() const { return merge_count_; }
  bool byte_fallback() const { return byte_fallback_; }

 private:
  struct Merge {
    std::uint64_t pair;  // left id << 32 | right id; kFree in a free slot
    std::int32_t rank;
    std::int32_t id;
  };
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  static constexpr std::size_t kShort = 32;     // most symbols to merge by searching all pairs
  static constexpr std::size_t kMedium = 4096;  // most symbols to merge with one heap

  void read_merges(const TokenizerFile::Merges& merges);
  void read_unknown(const Json& model);
  const Merge* merge_of(std::int32_t left, std::int32_t right) const;
  std::int32_t id_of_character(std::string_view character) const;
  void append_symbols(std::string_view word, std::vector<std::int32_t>& symbols) const;
  void merge_short(std::vector<std::int32_t>& ids, std::size_t begin) const;
  void merge_long(Scratch& scratch) const;
  template <class Queue>
  void merge_linked(Queue& queue, Scratch& scratch) const;

  Vocabulary vocabulary_;
  std::uint64_t key_;
  std::vector<Merge> merges_;
  std::size_t merge_count_ = 0;
  std::array<std::int32_t, 256> byte_ids_ = {};      // of single bytes (or ASCII characters), -1 for none
  std::array<std::int32_t, 256> fallback_ids_ = {};  // of <0x00> … <0xFF>
  std::int32_t unknown_ = -1;
  bool byte_fallback_ = false;
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;

  // Whether merging a token's own text gives that token, determined when the token is first met. Threads that
  // determine it at the same time write the same value.
  enum Whole : std::uint8_t { unasked = 0, whole = 1, broken = 2 };
  std::unique_ptr<std::atomic<std::uint8_t>[]> whole_;
};

}  // namespace routeopd::tokenizer
