// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/text_pieces.h"

#include <algorithm>

#include "routeopd/base/error.h"

namespace routeopd::serve {
namespace {

// Tokens before the response that decide how its first bytes are read: a character has four at most, and a
// tokenizer's first word needs one before it that is not special.
constexpr std::size_t kContextTokens = 16;

// An id below the largest one may have no token, and no text then.
std::string text_of_next(tokenizer::StreamDecoder& decoder, std::int32_t id) {
  try {
    return decoder.add(id);
  } catch (const UserError&) {
    return {};
  }
}

}  // namespace

TextPieces::TextPieces(const tokenizer::Tokenizer& tokenizer, std::span<const std::int32_t> prompt_ids,
                       const TextRules& rules)
    : rules_(rules), decoder_(tokenizer, rules.skip_special) {
  for (const std::int32_t id : prompt_ids.last(std::min(prompt_ids.size(), kContextTokens)))
    text_of_next(decoder_, id);
}

std::string TextPieces::add(std::int32_t id, TokenEnd end) {
  if (end != TokenEnd::kEos || rules_.include_stop) tail_ += text_of_next(decoder_, id);
  if (end == TokenEnd::kNone) return release(tail_.size() - held_back());
  tail_ += decoder_.finish();
  if (end == TokenEnd::kStop) cut_at_stop();
  return release(tail_.size());
}

std::string TextPieces::release(std::size_t length) {
  std::string piece = tail_.substr(0, length);
  tail_.erase(0, length);
  return piece;
}

std::size_t TextPieces::held_back() const {
  std::size_t longest = 0;
  for (const std::string& stop : rules_.stop) {
    for (std::size_t length = std::min(tail_.size(), stop.size() - 1); length > longest; --length) {
      if (tail_.compare(tail_.size() - length, length, stop, 0, length) == 0) longest = length;
    }
  }
  return longest;
}

void TextPieces::cut_at_stop() {
  std::size_t first = std::string::npos;
  for (const std::string& stop : rules_.stop) {
    const std::size_t at = tail_.find(stop);
    if (at >= first) continue;
    first = at;
    stop_string_ = stop;
  }
  if (first != std::string::npos) tail_.resize(first + (rules_.include_stop ? stop_string_.size() : 0));
}

}  // namespace routeopd::serve
