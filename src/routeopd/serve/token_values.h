// Log-probabilities of tokens in the three shapes that clients read: OpenAI's of completions and of chat, and
// vLLM's of prompts. A row lists the token itself first, then the most likely ones in order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "routeopd/base/json_fwd.h"
#include "routeopd/tokenizer/tokenizer.h"

namespace routeopd::serve {

// What tokens are called. A part of a character has no name, and the token that completes the character has
// the whole of it.
class TokenNames {
 public:
  // `tokenizer` may be null: names are "token_id:5" then, as they are with `as_ids`.
  TokenNames(const tokenizer::Tokenizer* tokenizer, bool as_ids) : tokenizer_(as_ids ? nullptr : tokenizer) {}

  // `before`: the tokens in front of it, of which the last four count.
  std::string name(std::int32_t id, std::span<const std::int32_t> before) const;

 private:
  std::string in_context(const std::string& bytes, std::span<const std::int32_t> before) const;
  std::string bytes_of(std::int32_t id) const;

  const tokenizer::Tokenizer* tokenizer_;
};

// The values at one token; spans are of the caller's memory.
struct TokenRow {
  std::int32_t id = 0;
  float logprob = 0;
  std::int32_t rank = 0;                    // 1: the most likely; 0: not known
  bool has_value = true;                    // the first token of a prompt has none
  std::span<const std::int32_t> top_ids{};  // most likely first, -1 pads
  std::span<const float> top_logits{};
  float logsumexp = 0;
};

// {"text_offset", "token_logprobs", "tokens", "top_logprobs"} of rows that follow one another: the token and
// the `top` most likely. Offsets count characters and begin at `offset`. `before`: the tokens in front of the
// first row.
OrderedJson completion_logprobs(std::span<const TokenRow> rows, const TokenNames& names,
                                std::span<const std::int32_t> before, std::size_t top, std::int64_t offset);

// {"content": [{"token", "logprob", "bytes", "top_logprobs": [the first `top` of the row]}]}.
OrderedJson chat_logprobs(std::span<const TokenRow> rows, const TokenNames& names,
                          std::span<const std::int32_t> before, std::size_t top);

// [null, {"id": {"logprob", "rank", "decoded_token"}}, …]: the token and the `top` most likely.
OrderedJson prompt_logprobs(std::span<const TokenRow> rows, const TokenNames& names, std::size_t top);

}  // namespace routeopd::serve
