// Where rollouts and scores come from: the built-in engine, or a client of a server. Prompts in, responses
// out; states and ids in, values out; new weights taken over. What only some engines can do is a capability,
// asked for before anything runs.
//
// An engine's answer is data from elsewhere: generate(), score() and gather() check every length and id of it
// before anyone uses it. Implementations override the functions behind them.
//
// Logits are known up to one constant per state. An engine that has log-probabilities alone hands those over,
// with a log-partition of 0, in all its answers.
//
// Shapes: P prompts, B responses, N states of a rollout, K columns of top-k, G ids gathered per state, H
// hidden size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/engine/sampler.h"
#include "routeopd/types/prompt.h"
#include "routeopd/types/rollout.h"
#include "routeopd/types/validity.h"

namespace routeopd::engine {

struct Sampling {
  std::int32_t n = 1;  // responses per prompt
  Decoding decoding{};
  std::int64_t max_new_tokens = 256;
  std::uint64_t seed = 42;
  std::uint32_t step = 0;  // address of the random numbers, beside prompt, sample and position

  // A response also ends with the token that completes one of these in its text (special tokens skipped).
  std::vector<std::string> stop{};
  bool ignore_eos = false;  // continue to max_new_tokens
  bool discard = false;     // responses are told to the watch and not kept: the rollout has none

  // Which of the n responses of each prompt to write, ascending, at least one of each; empty: all of every
  // prompt.
  std::vector<std::vector<std::int32_t>> samples_P{};
};

// What to keep of the behaviour distribution, at temperature 1 whatever the decoding.
struct Capture {
  std::int32_t k = 0;    // top-k per state; 0: none
  bool hidden = false;   // needs Capabilities::hidden_states
  bool entropy = false;  // needs Capabilities::entropy
};

struct ScoreRequest {
  std::int32_t k = 0;                             // 0: no top-k
  std::span<const std::int32_t> gather_ids_NG{};  // -1 pads
  std::int64_t gather_columns = 0;                // G
  bool hidden = false;                            // needs Capabilities::hidden_states
};

// One model's values at the states of a rollout.
struct StateValues {
  std::int32_t columns = 0;              // K, at most what was asked for
  std::vector<std::int32_t> top_ids_NK;  // -1 pads
  std::vector<float> top_logits_NK;
  std::vector<float> logsumexp_N;  // may be empty in the answer to gather()
  std::vector<float> gathered_NG;  // logits at the ids given
  // Whether the engine could tell that value: 0 where its server has no way to (then it is NaN). Empty: all.
  std::vector<std::uint8_t> known_NG;
  std::int64_t hidden_size = 0;
  std::vector<float> hidden_NH;  // where asked for
  std::int64_t tokens_read = 0;

  // Why a state's values cannot be used: truncated_scores, misaligned or non_finite. A state of the first two
  // kinds has no values: ids are -1, values NaN, hidden states 0.
  std::vector<Validity> validity_N;
};

// What an implementation hands over: values of the states that it answered, response after response.
struct Answer {
  StateValues values;                // of these states alone; validity_N is left empty
  std::vector<std::int64_t> rows_B;  // how many of each response's states, from its first one on
  std::vector<std::int32_t> id_N;    // the token that each of them predicts, as the engine read it
};

struct Capabilities {
  // Capture::hidden and ScoreRequest::hidden: the last hidden state of each token. With the LM head they give
  // the model's values at every id, which arms over the whole vocabulary need.
  bool hidden_states = false;
  // Capture::entropy: of the whole distribution at each token.
  bool entropy = false;
};

// Told of every response as it ends, in that order: how many are done, and the response as a rollout of its
// own (whose Response::prompt counts in the prompts given; its prompt_ids_P and address_N are empty). What it
// throws ends the run.
using Watch = std::function<void(std::int64_t done, std::int64_t total, const Rollout& response)>;

// generate() throws it where the model's logits are NaN or infinite while it writes: a run may skip the step.
class NonFiniteLogits : public UserError {
 public:
  using UserError::UserError;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // n responses for each prompt, in the order of the prompts. Throws UserError for an answer that is not
  // that.
  Rollout generate(std::span<const Prompt> prompts, const Sampling& sampling, const Capture& capture,
                   const Watch& watch = {});

  // Reads every response once, after its prompt. All N states have a row; StateValues::validity_N says which
  // are usable. Throws UserError for an answer whose lengths contradict each other.
  StateValues score(const Rollout& rollout, const ScoreRequest& request);

  // Logits at ids_NG (-1 pads: NaN) of the states of a rollout that this engine wrote or scored last, with
  // the weights it had then. From captured hidden states where it has them, by reading the responses again
  // elsewhere.
  StateValues gather(const Rollout& rollout, std::span<const std::int32_t> ids_NG, std::int64_t columns);

  // Takes over what the learner changed in the weights.
  virtual void refresh() = 0;

  // Real ids: the tokenizer's, not the padded rows.
  virtual std::int32_t real_ids() const = 0;

  virtual Capabilities capabilities() const = 0;

  // What happened since the last call, by name and how often: requests repeated, values looked up in
  // a wider top-k. For the metrics of a step.
  virtual std::map<std::string, std::int64_t> take_counts() { return {}; }

  // Where a line about what happens while it works may go, such as a server that does not answer. `log` is
  // called from any thread, by one at a time.
  virtual void tell_to(std::function<void(const std::string&)> /*log*/) {}

  // What messages call it: "local", "vllm".
  virtual std::string name() const = 0;

 protected:
  // The addresses of the states are filled in by generate().
  virtual Rollout write_responses(std::span<const Prompt> prompts, const Sampling& sampling,
                                  const Capture& capture, const Watch& watch) = 0;
  virtual Answer read_responses(const Rollout& rollout, const ScoreRequest& request) = 0;

  // Unless overridden: read_responses() for the ids alone.
  virtual Answer gather_values(const Rollout& rollout, std::span<const std::int32_t> ids_NG,
                               std::int64_t columns);
};

}  // namespace routeopd::engine
