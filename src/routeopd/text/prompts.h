// Prompt files: JSONL of {"id", "problem" | "prompt" | "prompt_ids", "answer"?, "response"?}.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "routeopd/text/tokenizer.h"
#include "routeopd/types/prompt.h"

namespace routeopd::text {

// How a problem becomes what the student reads: `raw` (the problem itself), or a text in which {problem} is replaced.
class PromptTemplate {
 public:
  // Throws UserError for a text without {problem}, and for `chat`.
  explicit PromptTemplate(std::string words);
  std::string apply(const std::string& problem) const;

 private:
  std::string words_;
};

// Reads a file of prompts. `problem` goes through the template, `prompt` is taken as it is, `prompt_ids` need no
// tokenizer (null). A response is encoded and ended by `eos` (-1: not ended). Errors name the line.
std::vector<Prompt> read_prompts(const std::string& path, const PromptTemplate& words,
                                 const Tokenizer* tokenizer, std::int32_t eos = -1);

// The prompt of one problem.
Prompt make_prompt(std::string id, std::uint32_t number, std::string text, const Tokenizer& tokenizer);

}  // namespace routeopd::text
