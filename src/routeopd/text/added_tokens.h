// Tokens that are cut out of a text before anything else happens to it: <|endoftext|>, <think>.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/text/bpe.h"

namespace routeopd::text {

struct AddedToken {
  std::int32_t id = -1;
  std::string content;
  bool special = false;     // left out of decoded text when asked
  bool normalized = false;  // looked for in normalised text, that is after those which are not
};

// "added_tokens" of tokenizer.json (null for none). Throws UserError for one that is wrong or not supported,
// or whose id is not what `tokenizers` would give it: that library counts on from the vocabulary's size, and
// heeds the file's ids only to warn of a difference.
std::vector<AddedToken> read_added_tokens(const Json& list, const Bpe& bpe);

// Finds tokens in text: leftmost first, the longest of those that begin there.
class TokenCutter {
 public:
  // `id` = -1 marks plain text.
  struct Piece {
    std::string_view text;
    std::int32_t id;
  };

  TokenCutter() { children_of_root_.fill(-1); }
  void add(std::string_view content, std::int32_t id);

  // Appends the pieces of `text`, none of them empty.
  void cut(std::string_view text, std::vector<Piece>& pieces) const;

 private:
  std::int32_t child_of(std::int32_t node, char byte) const;

  // A trie over bytes. Node 0 is the root.
  std::vector<std::int32_t> id_of_node_ = {-1};
  std::array<std::int32_t, 256> children_of_root_ = {};       // most bytes of a text begin no token
  std::unordered_map<std::uint64_t, std::int32_t> children_;  // by node << 8 | byte
};

}  // namespace routeopd::text
