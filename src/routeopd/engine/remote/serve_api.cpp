// `routeopd serve`, by its binary endpoints: the very bits of the local engine (docs/serve.md).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "routeopd/base/fields.h"
#include "routeopd/engine/remote/server_api.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/formats/safetensors.h"

namespace routeopd::engine {
namespace {

constexpr const char* kSafetensors = "application/octet-stream";
constexpr int kNonFiniteStatus = 422;
constexpr std::int64_t kWidest = 1 << 20;  // columns of any tensor

using formats::TensorType;

// A request's tensors and settings; what the tensors show must live until bytes().
class Body {
 public:
  void add(std::string name, std::span<const std::int32_t> values, std::vector<std::int64_t> shape = {}) {
    if (shape.empty()) shape = {std::ssize(values)};
    tensors_.push_back({std::move(name), TensorType::kI32, std::move(shape), std::as_bytes(values)});
  }
  void add(std::string name, std::span<const float> values, std::vector<std::int64_t> shape) {
    tensors_.push_back({std::move(name), TensorType::kF32, std::move(shape), std::as_bytes(values)});
  }
  void set(const std::string& name, const Json& value) { settings_[name] = value.dump(); }

  std::string bytes() const { return formats::safetensors_bytes(tensors_, settings_); }

 private:
  std::vector<formats::TensorView> tensors_;
  std::map<std::string, std::string> settings_;
};

// An answer's tensors, each of the size that was expected. Throws BadAnswer with the address.
class Tensors {
 public:
  Tensors(const std::string& url, const std::string& body) : url_(url), body_(body) {
    try {
      index_ = formats::read_safetensors(std::as_bytes(std::span(body_.data(), body_.size())));
    } catch (const UserError& error) {
      throw BadAnswer("{}: its answer is not safetensors ({})", url_, error.what());
    }
  }

  // [rows] or [rows, any]; an empty vector where there is none and `columns` is given as 0.
  template <class T>
  std::vector<T> take(const char* name, std::int64_t rows, std::int64_t columns) const {
    const formats::TensorView* const tensor = find(name);
    if (columns < 0 || columns > kWidest)  // it may be a number of the server's
      throw BadAnswer("{}: {} has {} columns; expected at most {}", url_, name, columns, kWidest);
    const std::size_t expected = static_cast<std::size_t>(rows * columns);
    if (tensor == nullptr && expected == 0) return {};
    constexpr TensorType kType = std::is_same_v<T, float> ? TensorType::kF32 : TensorType::kI32;
    if (tensor == nullptr || tensor->type != kType || tensor->bytes.size() != expected * sizeof(T))
      throw BadAnswer("{}: expected {} as {} values of {}, got {}", url_, name, expected,
                      formats::name_of(kType), tensor == nullptr ? "none" : described(*tensor));
    std::vector<T> values(expected);
    if (expected > 0) std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
    return values;
  }

  // Rows of a vector, and columns of a matrix; 0 where there is no such tensor.
  std::int64_t rows(const char* name) const { return dimension(name, 0); }
  std::int64_t columns(const char* name) const { return dimension(name, 1); }

  std::optional<std::int64_t> version() const {
    const auto found = index_.metadata.find("weights_version");
    if (found == index_.metadata.end()) return std::nullopt;
    const Json value = Json::parse(found->second, nullptr, /*allow_exceptions=*/false);
    if (!value.is_number_integer()) throw BadAnswer("{}: its weights_version is no number", url_);
    return value.get<std::int64_t>();
  }

 private:
  const formats::TensorView* find(const char* name) const {
    for (const formats::TensorView& tensor : index_.tensors)
      if (tensor.name == name) return &tensor;
    return nullptr;
  }

  std::int64_t dimension(const char* name, std::size_t which) const {
    const formats::TensorView* const tensor = find(name);
    return tensor == nullptr || tensor->shape.size() <= which ? 0 : tensor->shape[which];
  }

  static std::string described(const formats::TensorView& tensor) {
    return fmt::format("{} {}", formats::name_of(tensor.type), Json(tensor.shape).dump());
  }

  const std::string& url_;
  const std::string& body_;
  formats::SafetensorsIndex index_;
};

std::vector<std::int32_t> joined(std::span<const std::int32_t> prompt,
                                 const std::vector<std::span<const std::int32_t>>& responses) {
  std::vector<std::int32_t> ids;
  for (const auto response : responses) {
    ids.insert(ids.end(), prompt.begin(), prompt.end());
    ids.insert(ids.end(), response.begin(), response.end());
  }
  return ids;
}

Json object_at(Connection& server, const char* path) {
  const Json value = Json::parse(server.fetch(path), nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) throw BadAnswer("{}{}: its answer is no JSON object", server.url(), path);
  return value;
}

class ServeApi : public ServerApi {
 public:
  std::string name() const override { return "serve"; }
  Capabilities capabilities() const override { return {.hidden_states = true, .entropy = true}; }
  bool several_samples() const override { return true; }

  ServerInfo identify(Connection& server, const ServerNeeds& needs) const override {
    ServerInfo info;
    Json about;
    try {
      about = object_at(server, "/version");
    } catch (const ServerError& error) {
      if (error.status() != 404) throw;
    }
    const Json& weights = formats::value_or_null(about, "weights_version");
    const Json& version = formats::value_or_null(about, "version");
    if (!weights.is_number_integer() || !version.is_string())
      throw UnfitServer(
          "{}: this is not `routeopd serve`; start one with `routeopd serve DIR`, or choose another engine",
          server.url());
    info.version = version.get<std::string>();
    info.weights = weights.get<std::int64_t>();
    if (info.version != ROUTEOPD_VERSION)
      throw UnfitServer("{}: it is routeopd {}, and this is {}; equal bits need equal versions", server.url(),
                        info.version, ROUTEOPD_VERSION);
    const Json models = object_at(server, "/v1/models");
    const Json& list = formats::value_or_null(models, "data");
    if (!list.is_array() || list.empty() || !list.front().is_object())
      throw BadAnswer("{}/v1/models: expected a list of models", server.url());
    const Json& positions = formats::value_or_null(list.front(), "max_model_len");
    if (positions.is_number_integer()) info.max_positions = positions.get<std::int64_t>();
    if (info.max_positions > 0 && info.max_positions < needs.positions)
      throw UnfitServer(
          "{}: its model has {} positions, and the longest prompt with its response needs {}; try a smaller "
          "[rollout] max_new_tokens",
          server.url(), info.max_positions, needs.positions);
    if (needs.reloads) check_reloads(server);
    return info;
  }

  WrittenAnswer write(Connection& server, const ServerInfo&, const WriteRequest& request) const override {
    const Sampling& sampling = *request.sampling;
    const std::vector<std::int32_t> lengths = {static_cast<std::int32_t>(request.prompt_ids.size())};
    const std::vector<std::int32_t> numbers = {static_cast<std::int32_t>(request.prompt_number)};
    const std::vector<std::int32_t> counts = {static_cast<std::int32_t>(request.samples.size())};
    Body body;
    body.add("ids", request.prompt_ids);
    body.add("lengths", lengths);
    body.add("prompts", numbers);
    body.add("samples", request.samples);
    body.add("sample_counts", counts);
    body.set("n", sampling.n);
    body.set("temperature", sampling.decoding.temperature);
    body.set("top_p", sampling.decoding.top_p);
    body.set("top_k", sampling.decoding.top_k);
    body.set("max_new_tokens", sampling.max_new_tokens);
    body.set("seed", sampling.seed);
    body.set("step", sampling.step);
    body.set("stop", sampling.stop);
    body.set("ignore_eos", sampling.ignore_eos);
    body.set("k", request.capture.k);
    body.set("hidden", request.capture.hidden);
    body.set("entropy", request.capture.entropy);
    const std::string bytes = asked(server, "/v1/generate", body);
    const Tensors tensors(server.url(), bytes);
    const auto responses = std::ssize(request.samples);
    const auto response_lengths = tensors.take<std::int32_t>("lengths", responses, 1);
    const auto samples = tensors.take<std::int32_t>("samples", responses, 1);
    const auto finish = tensors.take<std::int32_t>("finish", responses, 1);
    WrittenAnswer answer;
    Rollout& rollout = answer.rollout;
    std::int64_t states = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (samples[i] != request.samples[i] || response_lengths[i] < 1 ||
          response_lengths[i] > sampling.max_new_tokens)
        throw BadAnswer("{}/v1/generate: expected response {} with 1 to {} tokens, got response {} with {}",
                        server.url(), request.samples[i], sampling.max_new_tokens, samples[i],
                        response_lengths[i]);
      rollout.responses_B.push_back({.sample = samples[i],
                                     .first_state = states,
                                     .length = response_lengths[i],
                                     .finish = finish[i] == 0 ? Finish::kStop : Finish::kLength});
      states += response_lengths[i];
    }
    const bool distribution = request.capture.k > 0 || request.capture.hidden;
    rollout.columns = static_cast<std::int32_t>(tensors.columns("top_ids"));
    rollout.hidden_size = tensors.columns("hidden");
    rollout.id_N = tensors.take<std::int32_t>("ids", states, 1);
    rollout.logprob_N = tensors.take<float>("logprobs", states, 1);
    rollout.logsumexp_N = tensors.take<float>("logsumexp", states, distribution ? 1 : 0);
    rollout.entropy_N = tensors.take<float>("entropy", states, request.capture.entropy ? 1 : 0);
    rollout.top_ids_NK = tensors.take<std::int32_t>("top_ids", states, rollout.columns);
    rollout.top_logits_NK = tensors.take<float>("top_logits", states, rollout.columns);
    rollout.hidden_NH = tensors.take<float>("hidden", states, rollout.hidden_size);
    answer.version = tensors.version();
    return answer;
  }

  ReadAnswer read(Connection& server, const ServerInfo&, const ReadRequest& request) const override {
    const std::vector<std::int32_t> ids = joined(request.prompt_ids, request.responses);
    std::vector<std::int32_t> lengths, prompt_lengths;
    ReadAnswer read;
    Answer& answer = read.answer;
    StateValues& values = answer.values;
    values.tokens_read = std::ssize(request.prompt_ids);
    for (const auto response : request.responses) {
      prompt_lengths.push_back(static_cast<std::int32_t>(request.prompt_ids.size()));
      lengths.push_back(static_cast<std::int32_t>(request.prompt_ids.size() + response.size()));
      answer.rows_B.push_back(std::ssize(response));
      answer.id_N.insert(answer.id_N.end(), response.begin(), response.end());
      values.tokens_read += std::ssize(response) - 1;  // the last token is not read
    }
    const std::int64_t states = std::ssize(answer.id_N);
    Body body;
    body.add("ids", ids);
    body.add("lengths", lengths);
    body.add("prompt_lengths", prompt_lengths);
    if (request.gather_columns > 0)
      body.add("gather_ids", request.gather_ids_NG, {states, request.gather_columns});
    body.set("k", request.k);
    body.set("hidden", request.hidden);
    const std::string bytes = asked(server, "/v1/score", body);
    const Tensors tensors(server.url(), bytes);
    values.columns = static_cast<std::int32_t>(tensors.columns("top_ids"));
    values.hidden_size = tensors.columns("hidden");
    values.top_ids_NK = tensors.take<std::int32_t>("top_ids", states, values.columns);
    values.top_logits_NK = tensors.take<float>("top_logits", states, values.columns);
    values.logsumexp_N = tensors.take<float>("logsumexp", states, 1);
    values.gathered_NG = tensors.take<float>("gathered_logits", states, request.gather_columns);
    values.hidden_NH = tensors.take<float>("hidden", states, values.hidden_size);
    read.version = tensors.version();
    return read;
  }

  std::vector<float> gather(Connection& server, const ServerInfo&, std::span<const float> hidden_NH,
                            std::int64_t hidden_size, std::span<const std::int32_t> ids_NG,
                            std::int64_t columns, std::int64_t version) const override {
    const std::int64_t states = std::ssize(hidden_NH) / hidden_size;
    Body body;
    body.add("hidden", hidden_NH, {states, hidden_size});
    body.add("gather_ids", ids_NG, {states, columns});
    if (version >= 0) body.set("weights_version", version);
    const std::string bytes = asked(server, "/v1/gather", body);
    return Tensors(server.url(), bytes).take<float>("gathered_logits", states, columns);
  }

  void reload(Connection& server, const ServerInfo&, const std::string& directory,
              std::int64_t version) const override {
    try {
      server.ask("/v1/reload", Json{{"path", directory}, {"version", version}}.dump());
    } catch (const ServerError& error) {
      if (error.status() == 403)
        throw UnfitServer("{}; start it with --reload-root and a directory that holds {} ([rollout] weights)",
                          error.what(), directory);
      throw;
    }
  }

 private:
  // Asked for a directory that no server has: 403 with the reason where reloading is off.
  static void check_reloads(Connection& server) {
    const net::HttpAnswer answer =
        server.post("/v1/reload", Json{{"path", "no/such/directory"}, {"version", 0}}.dump());
    if (answer.status == 403 && answer.body.find("reload: off") != std::string::npos)
      throw UnfitServer(
          "{}: it takes no new weights; start it with `routeopd serve DIR --reload-root ROOT`, where ROOT "
          "holds [rollout] weights",
          server.url());
  }

  // NaN or infinite logits while the model writes: NonFiniteLogits, as the local engine throws it.
  static std::string asked(Connection& server, const char* path, const Body& body) {
    try {
      return server.ask(path, body.bytes(), kSafetensors);
    } catch (const ServerError& error) {
      if (error.status() == kNonFiniteStatus) throw NonFiniteLogits("{}", error.what());
      if (error.status() == 409) throw StaleWeights("{}", error.what());
      throw;
    }
  }
};

}  // namespace

std::unique_ptr<ServerApi> make_serve_api() {
  return std::make_unique<ServeApi>();
}

}  // namespace routeopd::engine
