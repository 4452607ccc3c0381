// A model's tokens: text to id and back, in flat tables.
//
// Where the vocabulary spells bytes (byte_level.h), a token is kept as the bytes it stands for, so that a
// word of a text is looked up as it is. A token with a character outside that alphabet, which no word can
// produce, is kept verbatim.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/tokenizer/tokenizer_file.h"

namespace routeopd::tokenizer {

class Vocabulary {
 public:
  // Throws UserError for a repeated token or id, for ids far apart and for tokens of 64 kB or more.
  Vocabulary(const TokenizerFile::Tokens& tokens, bool byte_level);

  // The id of a token in the file's own spelling, -1 when there is none.
  std::int32_t id_of(std::string_view token) const;

  // The same, faster if the answer is `guess`.
  std::int32_t id_of(std::string_view token, std::int32_t guess) const;

  // The id of the token that stands for these bytes, -1 when there is none.
  std::int32_t id_of_bytes(std::string_view bytes) const { return find(bytes, false); }

  bool has(std::int32_t id) const {
    return id >= 0 && id <= largest_id() && entries_[static_cast<std::size_t>(id)].present;
  }

  // The file's spelling. Empty where there is no such id.
  std::string token_of(std::int32_t id) const;

  // The bytes that the token of an id stands for: of its spelling, where the vocabulary does not spell bytes.
  std::string_view bytes_of(std::int32_t id) const {
    const Entry& entry = entries_[static_cast<std::size_t>(id)];
    return std::string_view(bytes_).substr(entry.begin, entry.size);
  }

  bool byte_level() const { return byte_level_; }
  std::size_t size() const { return size_; }
  std::int32_t largest_id() const { return static_cast<std::int32_t>(entries_.size()) - 1; }

 private:
  struct Entry {
    std::uint32_t begin = 0;
    std::uint32_t size : 30 = 0;
    bool verbatim : 1 = false;
    bool present : 1 = false;
  };
  struct Place {
    std::uint32_t hash;
    std::int32_t id;  // -1 in a free slot
  };

  std::int32_t find(std::string_view bytes, bool verbatim) const;
  void insert(std::int32_t id);

  bool byte_level_;
  std::size_t size_ = 0;
  std::uint64_t key_;
  std::string bytes_;           // of all tokens, concatenated
  std::vector<Entry> entries_;  // by id
  std::vector<Place> places_;
};

}  // namespace routeopd::tokenizer
