// Tokens that are cut out of a text before anything else happens to it: <|endoftext|>, <think>.
//
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
  bool single_word = false;  // only where no letter or digit touches it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and behind it
  bool normalized = false;   // looked for, normalised, in normalised text, that is after those which are not
  bool special = false;      // left out of decoded text when asked

  bool operator==(const AddedToken&) const = default;
};

// "added_tokens" of tokenizer.json (null for none). Throws UserError for one that is wrong, or whose id is not what
// `tokenizers` would give it: that library counts on from the vocabulary's size, and heeds the file's ids only
// to warn of a difference.
std::vector<AddedToken> read_added_tokens(const Json& list, const Vocabulary& vocabulary);

// Finds tokens in text: leftmost first, the longest of those that begin there.
class TokenCutter {
 public:
  // `id` = -1 marks plain text.
  struct Piece {
    std::string_view text;
    std::int32_t id;
  };

  TokenCutter() { children_of_root_.fill(-1); }

  // `spelling` is what to look for: the token's content, or its normal form. Of two that look for the same, the
  // first counts.
  void add(std::string_view spelling, const AddedToken& token);

  // Appends the pieces of `text`, none of them empty but tokens. A search takes at most as many steps a byte as
  // the longest token has.
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
  std::array<std::int32_t, 256> children_of_root_ = {};       // most bytes of a text begin no token
  std::unordered_map<std::uint64_t, std::int32_t> children_;  // by node << 8 | byte
  std::string beginnings_;                                    // the bytes that do
};

}  // namespace routeopd::tokenizer
