// Tokens that are cut out of a text before anything else: <|endoftext|>, <think>.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "routeopd/base/json_fwd.h"
#include "routeopd/tokenizer/vocabulary.h"

namespace routeopd::tokenizer {

struct AddedToken {
  std::int32_t id = -1;
  std::string content;
  bool single_word = false;  // matches only where no letter or digit is adjacent
  bool lstrip = false;       // includes the white space before it
  bool rstrip = false;       // and after it
  bool normalized = false;   // its normal form is searched in normalized text, after the other tokens
  bool special = false;      // skipped in decoded text on request

  bool operator==(const AddedToken&) const = default;
};

// "added_tokens" of tokenizer.json (null for none). Throws UserError for a wrong one, or one whose id is not
// what `tokenizers` would assign: that library numbers them from the vocabulary's size on, and uses the
// file's ids only for a warning.
std::vector<AddedToken> read_added_tokens(const Json& list, const Vocabulary& vocabulary);

// Finds tokens in text: the leftmost first, and of those that begin there the longest.
class TokenCutter {
 public:
  // `id` = -1 marks plain text.
  struct Piece {
    std::string_view text;
    std::int32_t id;
  };

  TokenCutter() { children_of_root_.fill(-1); }

  // `spelling` is what to search for: the token's content, or its normal form. Of two tokens with the same
  // spelling the first counts.
  void add(std::string_view spelling, const AddedToken& token);

  // Appends the pieces of `text`; no plain piece is empty. A search takes at most as many steps per byte as
  // the longest token has bytes.
  void cut(std::string_view text, std::vector<Piece>& pieces) const;

 private:
  struct Found {
    std::size_t begin;
    std::size_t end;
    const AddedToken* token;  // null for none
  };

  std::int32_t child_of(std::int32_t node, char byte) const;
  std::size_t next_beginning(std::string_view text, std::size_t from) const;
  Found find(std::string_view text, std::size_t from) const;

  // A trie over bytes. Node 0 is the root.
  std::vector<std::int32_t> token_of_node_ = {-1};
  std::vector<AddedToken> tokens_;
  std::array<std::int32_t, 256> children_of_root_ = {};       // -1: no token begins with the byte
  std::unordered_map<std::uint64_t, std::int32_t> children_;  // by node << 8 | byte
  std::string beginnings_;                                    // the bytes that begin a token
};

}  // namespace routeopd::tokenizer
