// The prompts of a request as ids: texts, ids, lists of either, or messages through the chat template.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "routeopd/serve/parameters.h"
#include "routeopd/serve/served_model.h"

namespace routeopd::serve {

struct PromptInput {
  std::vector<std::int32_t> ids;
  std::string text;  // what was encoded; empty where ids were given
};

// The prompts of completions, at least one token each. Throws ApiError with 400.
std::vector<PromptInput> read_prompts(const Parameters& asked, const ServedModel& model,
                                      const Limits& limits);

// The messages as one prompt. Throws ApiError with 400.
PromptInput read_messages(const Parameters& asked, const ServedModel& model, const Limits& limits);

// Text to ids. Throws ApiError with 400 that names `param`: for a text that cannot fit, before it is read.
std::vector<std::int32_t> encode_text(const std::string& text, bool add_special, const ServedModel& model,
                                      std::int64_t most_tokens, const char* param);

// A list of ids of the vocabulary. Throws ApiError with 400 that names `param`.
std::vector<std::int32_t> ids_of(const OrderedJson& list, const ServedModel& model, const char* param);

}  // namespace routeopd::serve
