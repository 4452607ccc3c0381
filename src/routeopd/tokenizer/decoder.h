// "decoder" of tokenizer.json: tokens back to text. ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace
// and sequences of them.
//
// Each step turns tokens into tokens, as in `tokenizers`, but in pieces and as soon as they are certain.
// Decoding at once and token by token is therefore the same code, and gives the same text.
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
  // Null: tokens are joined by spaces. Throws UserError naming the component that is wrong or not supported.
  explicit Decoder(const Json& component);

  // Whether it is ByteLevel alone: then text is the tokens' bytes, and broken sequences become U+FFFD.
  bool only_byte_level() const {
    return steps_.size() == 1 && std::holds_alternative<ByteLevel>(steps_.front());
  }

  // The decoding of one text. Must not outlive the decoder.
  class Run {
   public:
    explicit Run(const Decoder& decoder);
    ~Run();
    Run(Run&&) noexcept;
    Run& operator=(Run&&) noexcept;

    // Take the next token, or the end, and append the text that is now certain: whole characters.
    void add(std::string_view token, std::string& text);
    void finish(std::string& text);

   private:
    std::unique_ptr<std::string> ready_;                // where the last stage collects text
    std::vector<std::unique_ptr<DecodeStage>> stages_;  // last stage first
  };

  struct ByteLevel {};
  struct ByteFallback {};
  struct Fuse {};
  struct Spaced {};  // a space between tokens
  struct Strip {
    std::string character;
    std::size_t start;  // at most this many at a token's beginning
    std::size_t stop;   // and end are dropped
  };
  struct Replace {
    std::string pattern;
    std::string content;
  };
  struct Metaspace {
    std::string replacement;
    bool drops_first;  // in the first token it is dropped; elsewhere it becomes a space
  };
  using Step = std::variant<ByteLevel, ByteFallback, Fuse, Spaced, Strip, Replace, Metaspace>;

 private:
  void read(const Json& component);

  std::vector<Step> steps_;
  std::size_t growth_ = 1;  // the most that all Replace steps together can lengthen a text
};

}  // namespace routeopd::tokenizer
