// "decoder" of tokenizer.json: tokens back to text. ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace and
// sequences of them.
//
// Each step takes tokens and gives tokens, as in `tokenizers`, but in pieces and as early as they are sure: so decoding
// at once and decoding token by token are the same work, and give the same text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "routeopd/base/json_fwd.h"

namespace routeopd::tokenizer {

class DecodeStage;

class Decoder {
 public:
  // Null for none: tokens with a space between them. Throws UserError naming the component that is wrong or not
  // supported.
  explicit Decoder(const Json& component);

  // Whether it is ByteLevel alone: then text is the tokens' bytes, of which broken ones become U+FFFD.
  bool only_byte_level() const {
    return steps_.size() == 1 && std::holds_alternative<ByteLevel>(steps_.front());
  }

  // One text on its way. Must not outlive the decoder.
  class Run {
   public:
    explicit Run(const Decoder& decoder);
    ~Run();
    Run(Run&&) noexcept;
    Run& operator=(Run&&) noexcept;

    // Takes the next token, or the end, and appends what text has become sure: whole characters.
    void add(std::string_view token, std::string& text);
    void finish(std::string& text);

   private:
    std::unique_ptr<std::string> ready_;                // where the last stage gathers text
    std::vector<std::unique_ptr<DecodeStage>> stages_;  // the last one first
  };

  struct ByteLevel {};
  struct ByteFallback {};
  struct Fuse {};
  struct Spaced {};  // a space between tokens
  struct Strip {
    std::string character;
    std::size_t start;  // at most this many of it at a token's beginning
    std::size_t stop;   // and end are dropped
  };
  struct Replace {
    std::string pattern;
    std::string content;
  };
  struct Metaspace {
    std::string replacement;
    bool drops_first;  // in the first token it becomes nothing, elsewhere a space
  };
  using Step = std::variant<ByteLevel, ByteFallback, Fuse, Spaced, Strip, Replace, Metaspace>;

 private:
  void read(const Json& component);

  std::vector<Step> steps_;
  std::size_t growth_ = 1;  // of a text that every Replace step finds its pattern in, at most
};

}  // namespace routeopd::tokenizer
