// Byte-pair encoding over bytes: the "model" of tokenizer.json.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "routeopd/base/fields.h"

namespace routeopd::text {

class Bpe {
 public:
  // Throws UserError naming the field of `model` that is wrong or not supported.
  explicit Bpe(const Json& model);

  // What one word needs while it is merged, kept to spare allocations. One a thread.
  struct Scratch {
    struct Symbol {
      std::int32_t id;
      std::int32_t previous;  // place of the neighbour, -1 at an end
      std::int32_t next;
      bool gone;  // merged into the symbol before it
    };
    struct Candidate {
      std::int32_t rank;  // of the merge; the lowest goes first
      std::int32_t place;
      std::int32_t id;  // that the pair becomes
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> queue;
  };

  // Appends the ids of one word (bytes, not spelled). A byte without a symbol in the vocabulary is dropped,
  // as `tokenizers` does where there is no unk_token. O(n log n) in the word's length.
  void append_ids(std::string_view word, std::vector<std::int32_t>& ids, Scratch& scratch) const;

  std::int32_t id_of(std::string_view token) const;    // -1 when there is none
  const std::string* token_of(std::int32_t id) const;  // null when there is none
  std::size_t size() const { return ids_.size(); }
  std::int32_t largest_id() const { return largest_id_; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  struct Merge {
    std::int32_t rank;
    std::int32_t id;
  };

  void read_vocabulary(const Json& vocabulary);
  void read_merges(const Json& merges);
  const Merge* merge_of(std::int32_t left, std::int32_t right) const;
  void merge_all(Scratch& scratch) const;

  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::unordered_map<std::int32_t, const std::string*> tokens_;  // into ids_; ids may have gaps
  std::unordered_map<std::uint64_t, Merge> merges_;              // by left id << 32 | right id
  std::array<std::int32_t, 256> byte_ids_ = {};
  std::int32_t largest_id_ = -1;
  bool ignore_merges_ = false;
};

}  // namespace routeopd::text
