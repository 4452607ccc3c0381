// The text of a response whose tokens come one by one: whole characters, nothing that may turn out to be the
// beginning of a stop string, and cut where one is found.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "routeopd/tokenizer/tokenizer.h"

namespace routeopd::serve {

struct TextRules {
  std::vector<std::string> stop{};
  bool include_stop = false;  // the text ends after the stop string, not before it; an end of sequence shows
  bool skip_special = true;
};

enum class TokenEnd {
  kNone,    // more tokens follow
  kLength,  // the last one that was allowed
  kEos,     // an end of sequence: no part of the text
  kStop,    // it completes a stop string
};

// The tokenizer and the rules must outlive it.
class TextPieces {
 public:
  // The response continues `prompt_ids`: what its first bytes mean depends on them, such as the space before
  // the first word in tokenizers that drop it at the start of a text.
  TextPieces(const tokenizer::Tokenizer& tokenizer, std::span<const std::int32_t> prompt_ids,
             const TextRules& rules);

  // Takes the next token and returns the text that is certain now, perhaps none.
  std::string add(std::int32_t id, TokenEnd end);

  // The string that ended the response; empty where none did.
  const std::string& stop_string() const { return stop_string_; }

 private:
  std::string release(std::size_t length);
  std::size_t held_back() const;  // bytes at the end of tail_ that may begin a stop string
  void cut_at_stop();

  const TextRules& rules_;
  tokenizer::StreamDecoder decoder_;
  std::string tail_;  // what has not been returned yet
  std::string stop_string_;
};

}  // namespace routeopd::serve
