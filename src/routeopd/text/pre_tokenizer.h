// Text to words, before any merging: "pre_tokenizer" of tokenizer.json. Split patterns, if any, and ByteLevel.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/text/split_pattern.h"

namespace routeopd::text {

class PreTokenizer {
 public:
  // Throws UserError naming the component that is wrong or not supported.
  explicit PreTokenizer(const Json& component);

  // Calls take(word) with the bytes of each word of `text`, in order. A word lives for that call only.
  template <class Take>
  void for_each_word(std::string_view text, const Take& take) const {
    std::vector<std::string_view> pieces = {text};
    std::vector<std::string_view> words;
    for (const SplitPattern& pattern : patterns_) {
      words.clear();
      for (const std::string_view piece : pieces) pattern.split(piece, words);
      pieces.swap(words);
    }
    std::string prefixed;
    for (std::string_view piece : pieces) {
      if (piece.empty()) continue;
      if (add_prefix_space_ && piece.front() != ' ') {
        prefixed.assign(1, ' ').append(piece);
        piece = prefixed;
      }
      words.assign(1, piece);
      if (last_pattern_) {
        words.clear();
        last_pattern_->split(piece, words);
      }
      for (const std::string_view word : words) take(word);
    }
  }

 private:
  void add_split(const Json& component);
  void set_byte_level(const Json& component);

  std::vector<SplitPattern> patterns_;
  bool add_prefix_space_ = false;
  std::optional<SplitPattern> last_pattern_;  // ByteLevel's own
};

}  // namespace routeopd::text
