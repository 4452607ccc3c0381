// A prompt and a response after it: its tokens, what is captured at each, and when it ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "routeopd/engine/engine.h"
#include "routeopd/engine/job.h"
#include "routeopd/tokenizer/tokenizer.h"
#include "routeopd/types/rollout.h"

namespace routeopd::engine {

// Finds stop strings in text that comes in pieces.
class StopFinder {
 public:
  StopFinder(const tokenizer::Tokenizer& tokenizer, const std::vector<std::string>& stop);

  // Whether the text of the tokens so far holds one of the strings.
  bool add(std::int32_t id);

 private:
  tokenizer::StreamDecoder decoder_;
  const std::vector<std::string>& stop_;
  std::size_t longest_ = 0;
  std::string tail_;  // the end of the text, in which a string may have begun
};

// Where the first of the strings begins in the text; its length where there is none.
std::size_t find_stop(const std::string& text, const std::vector<std::string>& stop);

// What the head gives at the state that a token is drawn from.
struct StateRow {
  LogitRow row;
  float logsumexp = 0;
  float entropy = 0;  // nats; 0 unless captured
  std::span<const std::int32_t> top_ids;
  std::span<const float> top_logits;
  std::span<const float> hidden;  // empty unless captured
};

// A response of a job: one that is being written, or a given one that is being read.
struct Sequence {
  const Job* job = nullptr;
  std::int32_t sample = -1;          // of a response that is written
  std::int64_t first_row = -1;       // of a given one: the row of the job that predicts its first token
  std::vector<std::int32_t> tokens;  // the prompt's and the response's; of a given one all but the last
  std::size_t prompt_tokens = 0;

  std::vector<std::int32_t> table;  // blocks of keys and values
  std::int64_t read = 0;            // tokens whose keys and values are there
  std::int64_t taken = 0;           // of a given one: tokens whose states were handed over

  bool ended = false;
  bool failed = false;  // it ended because the model's logits are NaN or infinite
  Finish finish = Finish::kLength;
  std::vector<float> logprobs, logsumexps, entropies, top_logits, hidden;
  std::vector<std::int32_t> top_ids;
  std::optional<StopFinder> stop;

  bool is_given() const { return first_row >= 0; }

  // Draws the next token from the state and captures what the job asks for. Any of `eos` ends the response.
  void take_token(const StateRow& state, const std::vector<std::int32_t>& eos);
  std::size_t length() const { return tokens.size() - prompt_tokens; }  // of the response
};

// The sentence about a response that failed.
std::string failure_of(const Sequence& sequence);

// Appends a response that has ended, to prompt `prompt` of the rollout: all but the addresses of its states.
void append_response(const Sequence& sequence, std::int32_t prompt, Rollout& rollout);

}  // namespace routeopd::engine
