// One kind of server: how it is asked, and what its answers mean. An implementation knows requests and
// answers and nothing of a run: what is asked of whom, what is repeated, and whether weights are stale is
// decided by those who call it (remote_engine.h).
//
// Shapes: P prompts, B responses, N states, K columns of top-k, G ids gathered per state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "routeopd/engine/engine.h"
#include "routeopd/engine/remote/connection.h"

namespace routeopd::engine {

// What a run wants of a server, asked before its first step.
struct ServerNeeds {
  bool writes = false;   // else it scores alone
  bool reloads = false;  // its weights change
  std::int32_t k = 0;    // of the top-k
  std::int32_t real_ids = 0;
  std::int64_t positions = 0;  // of the longest prompt with its longest response
  bool tied_head = false;      // the model's LM head is its embedding
};

// What a server said of itself.
struct ServerInfo {
  std::string model{};             // the name that requests give
  std::string version{};           // of its software
  std::int64_t max_positions = 0;  // 0: not told
  std::int64_t most_top = 0;       // widest top-k that it answers; 0: no bound known
  bool per_position_ids = false;   // gives values at ids of each position's own
  std::int64_t all_ids = 0;        // width of a row of all its ids; 0: it does not give those
  bool compact = true;             // vLLM: has /inference/v1/generate; else it only scores
  bool seeds = true;               // SGLang: a request's seed decides what it writes
  bool own_head = false;           // vLLM: was told that a tied head is not, and reads it under its own name
  bool loads_nothing = false;      // vLLM: started with --load-format dummy, which reload() has to change
  // Version of the weights that it has; none: it cannot say.
  std::optional<std::int64_t> weights{};
};

// What all ids of the tokens of one answer may take, where a server has no other way to tell values at given
// ids: some dozens of answers are in flight at once. An answer's limit of bytes must not be lower.
inline constexpr std::int64_t kMostBytesOfAllIds = 64LL << 20U;

// The version of weights whose name is not one that reload() gave: those that a server was started with, or
// those of a reload that failed half-way.
inline constexpr std::int64_t kForeignVersion = -1;

using Counts = std::map<std::string, std::int64_t>;

// Some responses to one prompt.
struct WriteRequest {
  std::span<const std::int32_t> prompt_ids;
  std::uint32_t prompt_number = 0;  // address of its random numbers
  std::span<const std::int32_t> samples;
  const Sampling* sampling = nullptr;  // its n and samples_P are not read
  Capture capture;
};

// Responses after one prompt, to be read.
struct ReadRequest {
  std::span<const std::int32_t> prompt_ids;
  std::vector<std::span<const std::int32_t>> responses;
  std::int32_t k = 0;
  std::span<const std::int32_t> gather_ids_NG{};  // -1 pads
  std::int64_t gather_columns = 0;
  bool hidden = false;
};

// The version that an answer names is that of the weights that computed it, the oldest where there were
// several; none: the server cannot say.
struct WrittenAnswer {
  Rollout
      rollout;  // responses in the order of the samples, all of prompt 0; prompt_ids_P and address_N empty
  std::optional<std::int64_t> version;
  Counts counts;
};

struct ReadAnswer {
  Answer answer;
  std::optional<std::int64_t> version;
  Counts counts;
};

// An answer that is not what this kind of server sends: another request may fare better.
class BadAnswer : public UserError {
 public:
  using UserError::UserError;
};

// The server refuses to be used as it is: an unsupported version, an option that it was started without.
// Asking again does not help.
class UnfitServer : public UserError {
 public:
  using UserError::UserError;
};

// An answer of other weights than it should be of: the server is given them, and asked again.
class StaleWeights : public UserError {
 public:
  using UserError::UserError;
};

class ServerApi {
 public:
  virtual ~ServerApi() = default;

  virtual std::string name() const = 0;  // "vllm"
  virtual Capabilities capabilities() const = 0;

  // Whether one request may ask for several samples of a prompt.
  virtual bool several_samples() const = 0;

  // Asks the server what it is. Throws UnfitServer, with what is supported or how to start it.
  virtual ServerInfo identify(Connection& server, const ServerNeeds& needs) const = 0;

  // These throw net::HttpFailure (no whole answer), ServerError (a status that is not 200), BadAnswer.
  virtual WrittenAnswer write(Connection& server, const ServerInfo& info,
                              const WriteRequest& request) const = 0;
  virtual ReadAnswer read(Connection& server, const ServerInfo& info, const ReadRequest& request) const = 0;

  // Values at ids, of the states of a rollout part whose hidden states are given; for kinds of servers whose
  // capabilities have hidden_states.
  virtual std::vector<float> gather(Connection& server, const ServerInfo& info,
                                    std::span<const float> hidden_NH, std::int64_t hidden_size,
                                    std::span<const std::int32_t> ids_NG, std::int64_t columns,
                                    std::int64_t version) const = 0;

  // New weights from a directory that the server sees; its answers then name `version`.
  virtual void reload(Connection& server, const ServerInfo& info, const std::string& directory,
                      std::int64_t version) const = 0;
};

std::unique_ptr<ServerApi> make_serve_api();
std::unique_ptr<ServerApi> make_vllm_api(std::int32_t real_ids);
std::unique_ptr<ServerApi> make_sglang_api(std::int32_t real_ids);

}  // namespace routeopd::engine
