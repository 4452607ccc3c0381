// The parameters of requests for text. Every parameter that OpenAI and vLLM know is in a table: one that has
// an effect here, one that is accepted at the value at which it has none, or one that is refused. Nothing
// that would change an answer is ignored.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/base/json_fwd.h"
#include "routeopd/serve/text_pieces.h"

namespace routeopd::serve {

constexpr int kMostStopBytes = 4096;  // of all stop strings of a request: every prompt's job has its own

struct Parameters {
  std::optional<std::string> model;
  std::string request_id;

  std::int32_t n = 1;
  std::optional<std::int32_t> best_of;  // n or none
  std::optional<double> temperature, top_p;
  std::optional<std::int32_t> top_k;  // 0: all
  std::optional<std::int64_t> max_tokens, max_completion_tokens;
  std::optional<std::uint64_t> seed;
  bool ignore_eos = false;
  TextRules text;

  // How many of the most likely ids to list at each token of the response, and of the prompt; 0: the token
  // alone, -1: all.
  std::optional<std::int32_t> logprobs, prompt_logprobs;
  bool as_ids = false;            // return_tokens_as_token_ids
  bool return_token_ids = false;  // of prompts and responses
  bool echo = false;              // completions: the text begins with the prompt

  bool stream = false;
  bool include_usage = false;    // a last piece with the usage
  bool usage_in_pieces = false;  // and one in every piece
  bool has_stream_options = false;

  bool add_special_tokens = true;
  OrderedJson prompt;  // of completions; null: none

  // Of chat.
  bool chat_logprobs = false;
  std::optional<std::int32_t> top_logprobs;
  OrderedJson messages, tools, documents, template_options;  // null: none
  std::optional<std::string> template_name;
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  bool return_prompt_text = false;
};

enum class Endpoint { kCompletions, kChat };

// Reads a body. Throws ApiError with 400 that names the parameter: one that is not known (with the nearest
// that is), of a wrong type, out of its range, not supported, or at odds with another.
Parameters read_parameters(std::string_view body, Endpoint endpoint);

// A body that is one JSON object. Throws ApiError with 400.
OrderedJson read_body(std::string_view body);

// Names that an endpoint knows, in the order of the documentation.
std::vector<std::string> known_parameters(Endpoint endpoint);

}  // namespace routeopd::serve
