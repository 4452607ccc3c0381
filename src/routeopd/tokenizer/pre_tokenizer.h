// Text to words, before any merging: "pre_tokenizer" of tokenizer.json. Split, Digits, Punctuation,
// Whitespace, WhitespaceSplit, Metaspace, ByteLevel, and a Sequence of them in which ByteLevel comes last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "routeopd/base/json_fwd.h"
#include "routeopd/tokenizer/split_pattern.h"
#include "routeopd/tokenizer/unicode.h"

namespace routeopd::tokenizer {

class PreTokenizer {
 public:
  // Null: a text is one word. Throws UserError naming the component that is wrong or not supported.
  explicit PreTokenizer(const Json& component);

  // Whether the vocabulary spells bytes as in byte_level.h. Words are passed as plain bytes in either case.
  bool byte_level() const { return byte_level_; }

  // Whether words depend on where a text begins (Metaspace's "first").
  bool heeds_first() const { return heeds_first_; }

  // Calls take(word) with the bytes of each word of `text`, in order, none of them empty. A word is valid
  // during the call only. `first`: whether the text is the beginning of the whole text.
  template <class Take>
  void for_each_word(std::string_view text, bool first, const Take& take) const {
    if (only_pattern_ != KnownPattern::none) {
      const std::uint8_t* classes = char_classes();
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = word_end(only_pattern_, classes, text, at);
        take(text.substr(at, end - at));
        at = end;
      }
    } else {
      std::deque<std::string> storage;
      for (const Piece& piece : pieces_of({text, first}, storage)) take(piece.text);
    }
  }

 private:
  enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
  struct Piece {
    std::string_view text;
    bool first;
  };
  struct Split {
    SplitPattern pattern;
    Behavior behavior;
    bool invert;
  };
  struct ClassSplit {  // each character of a class is a match
    CharClass kind;
    Behavior behavior;
  };
  struct Whitespace {};  // words and runs of other characters
  struct Metaspace {
    enum class Prepend { always, first, never };
    std::string replacement;
    Prepend prepend;
    bool split;
  };
  struct PrefixSpace {};
  using Step = std::variant<Split, ClassSplit, Whitespace, Metaspace, PrefixSpace>;

  static Behavior behavior_of(const Json& component);
  static Metaspace read_metaspace(const Json& component);
  static void gather(std::string_view text, bool first, Behavior behavior, bool invert,
                     std::vector<Cut>& cuts, std::vector<Piece>& pieces);
  static void apply(const Step& step, const Piece& piece, std::deque<std::string>& storage,
                    std::vector<Piece>& pieces);

  void read(const Json& component);
  void read_byte_level(const Json& component);
  std::vector<Piece> pieces_of(Piece whole, std::deque<std::string>& storage) const;

  std::vector<Step> steps_;
  bool byte_level_ = false;
  bool heeds_first_ = false;
  KnownPattern only_pattern_ = KnownPattern::none;  // set if matching this pattern is all there is to do
};

}  // namespace routeopd::tokenizer
