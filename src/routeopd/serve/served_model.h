// What a server knows of its model, and what it allows its clients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/engine/sampler.h"
#include "routeopd/text/chat_template_files.h"
#include "routeopd/tokenizer/tokenizer.h"

namespace routeopd::serve {

// What a request gets that does not say otherwise: generation_config.json's values, as vLLM takes them.
struct GenerationDefaults {
  engine::Decoding decoding{};
  std::optional<std::int64_t> max_new_tokens;  // of chat
  std::vector<std::string> ignored;  // settings of the file that change answers and are not supported
};

// DIR/generation_config.json, or the defaults where there is none. Throws UserError naming the file.
GenerationDefaults read_generation_defaults(const std::filesystem::path& directory);

struct ServedModel {
  std::string name;                                 // what clients call it
  std::string root;                                 // shown by /v1/models; may be empty
  const tokenizer::Tokenizer* tokenizer = nullptr;  // null: ids in, ids out
  const text::ChatTemplates* templates = nullptr;   // null: no chat
  std::int32_t real_ids = 0;
  std::int64_t hidden_size = 0;
  std::int64_t positions = 0;         // prompt and response together
  std::vector<std::int32_t> eos_ids;  // any of them ends a response
  GenerationDefaults defaults;
};

struct Limits {
  std::int64_t most_prompt_tokens = 1LL << 24U;  // of one prompt; the model's positions bound it as well
  std::int64_t most_new_tokens = 1LL << 24U;     // of one response
  std::int32_t most_n = 256;
  std::int64_t most_prompts = 1024;    // of one request
  std::int64_t most_responses = 4096;  // of one request: prompts times n
  std::int32_t most_logprobs = 256;    // listed at one token
  // Log-probabilities in one answer: some 60 bytes each as JSON, and several hundred in the tree that is
  // written as it.
  std::int64_t most_values = 1LL << 20U;
  std::int64_t most_sequences = 4096;              // of a binary request
  std::int32_t most_top = 4096;                    // of a binary request's top-k
  std::int64_t most_tensor_values = 256LL << 20U;  // in one binary answer, 4 bytes each
  double seconds = 600;                            // from a request's arrival to the end of its answer
};

}  // namespace routeopd::serve
