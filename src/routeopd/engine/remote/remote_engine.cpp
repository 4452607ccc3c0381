// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/remote/remote_engine.h"

#include <algorithm>
#include <limits>
#include <random>
#include <system_error>
#include <utility>

#include "routeopd/base/hashes.h"
#include "routeopd/engine/remote/answer_parts.h"

namespace routeopd::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kGatherBytes = 32LL << 20U;  // of one request's hidden states and ids

// Versions of one run count up from a random number: no two runs give the same version to other weights.
std::int64_t first_version() {
  std::random_device device;
  const std::uint64_t bits = (std::uint64_t{device()} << 32U | device()) & ((std::uint64_t{1} << 38U) - 1);
  return static_cast<std::int64_t>(bits << 24U);
}

// Some samples of one prompt: one request.
struct WriteItem {
  std::size_t prompt = 0;
  std::vector<std::int32_t> samples;
};

std::vector<WriteItem> write_items(std::span<const Prompt> prompts, const Sampling& sampling, bool several) {
  std::vector<WriteItem> items;
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    std::vector<std::int32_t> samples;
    if (sampling.samples_P.empty()) {
      for (std::int32_t i = 0; i < sampling.n; ++i) samples.push_back(i);
    } else {
      samples = sampling.samples_P[p];
    }
    if (several) {
      items.push_back({p, std::move(samples)});
      continue;
    }
    for (const std::int32_t sample : samples) items.push_back({p, {sample}});
  }
  return items;
}

// Responses [first, end) of a rollout, all after one prompt: one request.
struct ReadItem {
  std::size_t first = 0, end = 0;
};

std::vector<ReadItem> read_items(const Rollout& rollout, bool several) {
  std::vector<ReadItem> items;
  for (std::size_t b = 0; b < rollout.responses_B.size(); ++b) {
    const bool joins = several && !items.empty() &&
                       rollout.responses_B[items.back().first].prompt == rollout.responses_B[b].prompt;
    if (joins) {
      items.back().end = b + 1;
    } else {
      items.push_back({b, b + 1});
    }
  }
  return items;
}

}  // namespace

RemoteEngine::RemoteEngine(std::unique_ptr<ServerApi> api, std::int32_t real_ids, RemoteOptions options)
    : api_(std::move(api)),
      real_ids_(real_ids),
      options_(std::move(options)),
      fleet_(*api_, options_.section, options_.fleet, options_.needs),
      next_version_(first_version()) {
  try {
    fleet_.identify();
  } catch (const net::HttpFailure& failure) {
    throw UserError("[{}] urls: {}; is the server started?", options_.section, failure.what());
  }
}

RemoteEngine::~RemoteEngine() {
  std::error_code ignored;
  if (!weights_) return;
  fs::remove_all(weights_->directory, ignored);
  if (options_.own_root) fs::remove(options_.weights_root, ignored);  // where nothing else is in it
}

// Several runs may share the directory.
std::string RemoteEngine::weights_prefix() const {
  return fmt::format("routeopd-{}-", sha256(options_.run).substr(0, 12));
}

namespace {

// Weights that no server is asked to read again, also where the newer ones were not taken.
class RemovedAtEnd {
 public:
  explicit RemovedAtEnd(std::optional<ServedWeights> weights) : weights_(std::move(weights)) {}
  ~RemovedAtEnd() {
    std::error_code ignored;
    if (weights_) fs::remove_all(weights_->directory, ignored);
  }
  RemovedAtEnd(const RemovedAtEnd&) = delete;
  RemovedAtEnd& operator=(const RemovedAtEnd&) = delete;

 private:
  std::optional<ServedWeights> weights_;
};

}  // namespace

void RemoteEngine::refresh() {
  if (!options_.write_weights) return;
  std::error_code ignored;
  // What a killed process of this run left.
  if (!weights_)
    for (const auto& entry : fs::directory_iterator(options_.weights_root, ignored))
      if (entry.path().filename().string().starts_with(weights_prefix()))
        fs::remove_all(entry.path(), ignored);
  fs::create_directories(options_.weights_root, ignored);
  const std::int64_t version = next_version_++;
  const fs::path directory =
      fs::absolute(options_.weights_root) / fmt::format("{}{}", weights_prefix(), version);
  options_.write_weights(directory, fleet_.own_head());
  const RemovedAtEnd old(std::exchange(weights_, ServedWeights{directory.string(), version}));
  fleet_.take_weights(*weights_);
}

void RemoteEngine::check_version(const Connection& server, std::optional<std::int64_t> version) {
  if (!version && options_.write_weights)
    throw BadAnswer("{}: its answer does not say which weights it is of", server.url());
  if (!version) return;
  if (options_.write_weights) {
    if (weights_ && *version != weights_->version)
      throw StaleWeights("{}: its answer is of weights {}; expected {}", server.url(), *version,
                         weights_->version);
    return;
  }
  const std::lock_guard lock(mutex_);
  if (!seen_version_) seen_version_ = version;
  if (*seen_version_ != *version)
    throw UserError(
        "[{}] urls: {} answers with weights of version {}, and earlier answers were of version {}; a model "
        "that does not learn keeps its weights during a run",
        options_.section, server.url(), *version, *seen_version_);
}

void RemoteEngine::add_counts(const Counts& counts) {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, count] : counts) counts_[name] += count;
}

std::map<std::string, std::int64_t> RemoteEngine::take_counts() {
  Counts all = fleet_.take_counts();
  const std::lock_guard lock(mutex_);
  for (const auto& [name, count] : std::exchange(counts_, {})) all[name] += count;
  return all;
}

// Of an answer with k values and `columns` gathered ones at each row; hidden states beside them. Ours has 4
// bytes a value, JSON some 70; where ids are looked up in more values than were asked for, those are bounded
// by the client's own limit. Rows are those of prompts, too: vLLM answers at all positions.
std::int64_t RemoteEngine::most_bytes(std::int64_t rows, std::int64_t k, std::int64_t columns) const {
  constexpr std::int64_t kSpare = 4LL << 20U, kWidestHidden = 4LL * (1 << 16), kJsonValue = 256,
                         kLookedUp = 8 * kMostBytesOfAllIds;
  if (api_->capabilities().hidden_states) return kSpare + rows * (8 * (k + 2) + 4 * columns + kWidestHidden);
  return kSpare + rows * kJsonValue * (k + 2) + (columns > 0 ? kLookedUp : 0);
}

Rollout RemoteEngine::write_responses(std::span<const Prompt> prompts, const Sampling& sampling,
                                      const Capture& capture, const Watch& watch) {
  const std::vector<WriteItem> items = write_items(prompts, sampling, api_->several_samples());
  std::int64_t total = 0, done = 0;
  for (const WriteItem& item : items) total += std::ssize(item.samples);
  std::vector<Rollout> parts(items.size());
  fleet_.run(items.size(), [&](Connection& server, const ServerInfo& info, std::size_t i) {
    const Prompt& prompt = prompts[items[i].prompt];
    server.limit_answer(
        most_bytes(std::ssize(items[i].samples) * sampling.max_new_tokens, capture.k, /*columns=*/0));
    WrittenAnswer answer = api_->write(server, info,
                                       {.prompt_ids = prompt.ids,
                                        .prompt_number = prompt.number,
                                        .samples = items[i].samples,
                                        .sampling = &sampling,
                                        .capture = capture});
    check_version(server, answer.version);
    if (answer.rollout.responses_B.size() != items[i].samples.size())
      throw BadAnswer("{}: expected {} responses, got {}", server.url(), items[i].samples.size(),
                      answer.rollout.responses_B.size());
    for (Response& response : answer.rollout.responses_B)
      response.prompt = static_cast<std::int32_t>(items[i].prompt);
    add_counts(answer.counts);
    if (watch) {
      const std::lock_guard lock(mutex_);
      for (std::size_t b = 0; b < answer.rollout.responses_B.size(); ++b)
        watch(++done, total, response_of(answer.rollout, b));
    }
    if (!sampling.discard) parts[i] = std::move(answer.rollout);
  });
  Rollout rollout = joined_rollouts(parts);
  for (const Prompt& prompt : prompts) rollout.prompt_ids_P.push_back(prompt.ids);
  return rollout;
}

Answer RemoteEngine::read_responses(const Rollout& rollout, const ScoreRequest& request) {
  const std::vector<ReadItem> items = read_items(rollout, api_->several_samples());
  std::vector<Answer> parts(items.size());
  fleet_.run(items.size(), [&](Connection& server, const ServerInfo& info, std::size_t i) {
    const Response& first = rollout.responses_B[items[i].first];
    ReadRequest read{.prompt_ids = rollout.prompt_ids_P[static_cast<std::size_t>(first.prompt)],
                     .responses = {},
                     .k = request.k,
                     .gather_ids_NG = {},
                     .gather_columns = request.gather_columns,
                     .hidden = request.hidden};
    std::int64_t rows = 0, tokens = 0;
    for (std::size_t b = items[i].first; b < items[i].end; ++b) {
      const Response& response = rollout.responses_B[b];
      read.responses.push_back(std::span(rollout.id_N)
                                   .subspan(static_cast<std::size_t>(response.first_state),
                                            static_cast<std::size_t>(response.length)));
      rows += response.length;
      tokens += std::ssize(read.prompt_ids) + response.length;
    }
    read.gather_ids_NG =
        request.gather_ids_NG.subspan(static_cast<std::size_t>(first.first_state * request.gather_columns),
                                      static_cast<std::size_t>(rows * request.gather_columns));
    server.limit_answer(most_bytes(tokens, request.k, request.gather_columns));
    ReadAnswer answer = api_->read(server, info, read);
    check_version(server, answer.version);
    add_counts(answer.counts);
    parts[i] = std::move(answer.answer);
  });
  return joined_answers(std::move(parts), request.gather_columns);
}

Answer RemoteEngine::gather_values(const Rollout& rollout, std::span<const std::int32_t> ids_NG,
                                   std::int64_t columns) {
  const std::int64_t width = rollout.hidden_size;
  if (width == 0 || !api_->capabilities().hidden_states)
    return Engine::gather_values(rollout, ids_NG, columns);
  const std::int64_t rows = std::max<std::int64_t>(
      1, kGatherBytes / (static_cast<std::int64_t>(sizeof(float)) * (width + columns)));
  const std::int64_t states = rollout.states();
  const std::int64_t version = weights_ ? weights_->version : -1;
  Answer answer;
  for (const Response& response : rollout.responses_B) answer.rows_B.push_back(response.length);
  answer.id_N = rollout.id_N;
  answer.values.gathered_NG.resize(ids_NG.size());
  const auto items = static_cast<std::size_t>((states + rows - 1) / rows);
  fleet_.run(items, [&](Connection& server, const ServerInfo& info, std::size_t i) {
    const std::int64_t first = static_cast<std::int64_t>(i) * rows, end = std::min(first + rows, states);
    const auto part = [&](auto values, std::int64_t stride) {
      return values.subspan(static_cast<std::size_t>(first * stride),
                            static_cast<std::size_t>((end - first) * stride));
    };
    server.limit_answer(most_bytes(end - first, 0, columns));
    const std::vector<float> values = api_->gather(server, info, part(std::span(rollout.hidden_NH), width),
                                                   width, part(ids_NG, columns), columns, version);
    std::copy(values.begin(), values.end(), answer.values.gathered_NG.begin() + first * columns);
  });
  return answer;
}

}  // namespace routeopd::engine
