// What the local engine is asked to do with one prompt: responses to be written after it, given responses to
// be read after it, and values to be read at its own tokens. Jobs join and leave the engine's batch at any
// step, and what one of them gives does not depend on the others.
//
// Shapes: R rows that are read (those of the prompt's own tokens, then those of the given responses, in
// order), G ids gathered per row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "routeopd/engine/engine.h"
#include "routeopd/types/rollout.h"

namespace routeopd::engine {

struct Job {
  std::string name = "prompt";  // what messages call it: "prompt 3"
  std::vector<std::int32_t> prompt_ids;

  // Responses to write. Of `sampling`, `n`, `samples_P` and `discard` are not looked at.
  std::vector<std::int32_t> samples{};  // their numbers, ascending; empty: none
  std::uint32_t number = 0;             // the prompt's, < 2^24: address of the random numbers
  Sampling sampling{};
  Capture capture{};
  bool tell_tokens = false;  // each token is told as it is written, not only each response

  // What to read. Row i of a text is the distribution that predicts its token i.
  std::vector<std::vector<std::int32_t>> given{};  // responses, each of at least one token
  std::int64_t prompt_from = 0;     // the first token of the prompt whose row is wanted, >= 1; 0: none is
  std::int32_t k = 0;               // top-k of each row; 0: none
  std::int64_t gather_columns = 0;  // G
  std::vector<std::int32_t> gather_ids_RG{};  // -1 pads
  bool ranks = false;                         // how many ids are at least as likely as the first one gathered
  bool hidden = false;                        // keep the hidden states of the rows

  std::size_t responses() const { return samples.size() + given.size(); }
  std::int64_t prompt_rows() const {
    return prompt_from > 0 ? static_cast<std::int64_t>(prompt_ids.size()) - prompt_from : 0;
  }
  std::int64_t rows() const {
    std::int64_t all = prompt_rows();
    for (const std::vector<std::int32_t>& response : given) all += static_cast<std::int64_t>(response.size());
    return all;
  }
};

// The jobs of Engine::generate(): a prompt each, with the responses that `sampling` asks for.
std::vector<Job> writing_jobs(std::span<const Prompt> prompts, const Sampling& sampling,
                              const Capture& capture);

// The jobs of Engine::score(), whose rows one after another are the states of the rollout. Responses that
// follow each other and have one prompt are a job; one alone is read as a whole, together with its prompt.
std::vector<Job> reading_jobs(const Rollout& rollout, const ScoreRequest& request);

struct JobResult {
  Rollout written;                   // one prompt; responses in the order of Job::samples; no addresses
  StateValues read;                  // of the R rows; validity_N is empty
  std::vector<std::int32_t> rank_R;  // 1: the most likely id; empty unless asked for
};

}  // namespace routeopd::engine
