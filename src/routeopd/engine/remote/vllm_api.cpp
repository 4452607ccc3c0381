// vLLM's HTTP interface, as of 0.32.0, tried live on the CPU.
//
// It is asked one response at a time: /inference/v1/generate takes ids and every sampling parameter, and
// names the weights that wrote each token. A server that only scores may lack it; then /v1/completions is
// asked.
//
// Facts that requests depend on, read in its source and seen in its answers:
//   - the list of a generated token's best ids begins with the token itself and is cut to what was asked for,
//     so the k best take k + 1;
//   - values are of the model's own distribution, before temperature and top-p (--logprobs-mode raw_logprobs,
//     the default), over all rows of its head, padded ones included;
//   - prompts are answered at all their positions, and a request writes one token at least: a sequence of
//     max_model_len tokens cannot be read;
//   - minus infinity is sent as -9999, and so is NaN, but without a rank;
//   - a temperature above 2 is refused;
//   - on CPUs, reload_weights leaves a head that is tied to the embedding as it was (its packed copy is not
//     made again; the log says "ParallelLMHead: Failed to load weights"): answers are then of new layers
//     under an old head, and name the new version. Such a server is refused; one that was told that the head
//     is not tied is given it under its own name, and reloads it.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "routeopd/engine/remote/api_common.h"
#include "routeopd/engine/remote/json_answer.h"
#include "routeopd/engine/remote/server_api.h"
#include "routeopd/engine/remote/vllm_answers.h"
#include "routeopd/formats/json_file.h"

namespace routeopd::engine {
namespace {

constexpr std::array<int, 3> kOldest = {0, 32, 0};
constexpr std::int64_t kVllmBytesPerValue = 80;  // "151935":{"logprob":-12.345678901234567,"rank":…
constexpr std::int64_t kWider = 4;               // times k: a top-k in which given ids are looked up
constexpr std::int64_t kCompared = 16;           // values, when a server is asked what it sends
constexpr const char* kGenerate = "/inference/v1/generate";
constexpr const char* kCompletions = "/v1/completions";

// What its head and the weights of its start must be on a CPU, for a model with a tied head.
constexpr const char* kUntied =
    "--load-format dummy --hf-overrides '{\"tie_word_embeddings\": false}' (the weights come from the "
    "trainer)";

std::string how_to_start(std::int64_t top, const ServerNeeds& needs) {
  return fmt::format(
      "start it with {}python -m vllm.entrypoints.openai.api_server --model DIR "
      "--enable-scale-out --max-logprobs {}",
      needs.reloads ? "VLLM_SERVER_DEV_MODE=1 " : "", top);
}

// The number after `words` in `text`.
std::optional<std::int64_t> number_after(const std::string& text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string::npos) return std::nullopt;
  std::int64_t number = 0;
  const char* first = text.data() + at + words.size();
  if (std::from_chars(first, text.data() + text.size(), number).ec != std::errc{}) return std::nullopt;
  return number;
}

// How values at given ids are had.
enum class Way { kNone, kPerPosition, kAllIds, kWiderTop };

class VllmApi final : public ServerApi {
 public:
  explicit VllmApi(std::int32_t real_ids) : real_ids_(real_ids) {}

  std::string name() const override { return "vllm"; }
  Capabilities capabilities() const override { return {}; }
  bool several_samples() const override { return false; }

  ServerInfo identify(Connection& server, const ServerNeeds& needs) const override {
    ServerInfo info;
    read_version(server, info);
    read_models(server, info);
    // The widest that any step asks for, with room to look ids up.
    const std::int64_t least = needs.k + (needs.writes ? 1 : 0),
                       good = std::max<std::int64_t>(kWider * needs.k, least);
    check_positions(server, info, needs);
    read_weights(server, info, needs, good);
    read_widths(server, info, needs, good);
    if (info.most_top < least)
      throw UnfitServer("{}: it answers {} log-probabilities per token, and {} are needed; {}", server.url(),
                        info.most_top, least, how_to_start(good, needs));
    const std::int64_t compared = std::min<std::int64_t>({info.most_top - 1, kCompared, real_ids_});
    check_log_probabilities(*this, server, info, needs.writes, static_cast<std::int32_t>(compared),
                            how_to_start(good, needs) + " --logprobs-mode raw_logprobs");
    return info;
  }

  WrittenAnswer write(Connection& server, const ServerInfo& info,
                      const WriteRequest& request) const override {
    const Sampling& sampling = *request.sampling;
    WrittenAnswer written;
    for (const std::int32_t sample : request.samples) {
      // One more than k: see the top of this file.
      const std::int64_t top =
          request.capture.k > 0 ? std::min<std::int64_t>(request.capture.k, real_ids_) + 1 : 0;
      std::string body = fmt::format(
          R"({{"model":{},"token_ids":[{}],"sampling_params":{{"n":1,"temperature":{},"top_p":{},"top_k":{},)"
          R"("seed":{},"max_tokens":{},"ignore_eos":{},"logprobs":{},)",
          Json(info.model).dump(), fmt::join(request.prompt_ids, ","), sampling.decoding.temperature,
          sampling.decoding.top_p, sampling.decoding.top_k,
          response_seed(sampling, request.prompt_number, sample) >> 1U, sampling.max_new_tokens,
          sampling.ignore_eos, info.all_ids > 0 ? std::min(top, info.all_ids) : top);
      // Stop strings are found in the text, so that must be made; token_ids then still has every token.
      body += sampling.stop.empty() ? R"("detokenize":false}})"
                                    : fmt::format(R"("stop":{}}}}})", Json(sampling.stop).dump());
      read_vllm_response(server.ask(kGenerate, std::move(body)),
                         {.sample = sample,
                          .real_ids = real_ids_,
                          .k = request.capture.k,
                          .max_new_tokens = sampling.max_new_tokens},
                         written);
    }
    return written;
  }

  ReadAnswer read(Connection& server, const ServerInfo& info, const ReadRequest& request) const override {
    if (request.prompt_ids.empty()) throw UserError("vLLM cannot read a response without a prompt");
    ReadAnswer read;
    const auto columns = static_cast<std::size_t>(request.gather_columns);
    std::size_t first = 0;
    for (const std::span<const std::int32_t> response : request.responses) {
      const std::span<const std::int32_t> ids =
          request.gather_ids_NG.subspan(first * columns, response.size() * columns);
      read_one(server, info, request, response, ids, read);
      first += response.size();
    }
    return read;
  }

  std::vector<float> gather(Connection& /*server*/, const ServerInfo& /*info*/,
                            std::span<const float> /*hidden_NH*/, std::int64_t /*hidden_size*/,
                            std::span<const std::int32_t> /*ids_NG*/, std::int64_t /*columns*/,
                            std::int64_t /*version*/) const override {
    throw UserError("vLLM has no values from hidden states");
  }

  // While weights change, their name says so: a reload that fails half-way leaves no answers that look right.
  void reload(Connection& server, const ServerInfo& info, const std::string& directory,
              std::int64_t version) const override {
    step(server, "pause", "/pause?mode=wait", "{}");
    try {
      set_version(server, fmt::format("loading {}", version));
      if (info.loads_nothing)
        step(server, "change its load format", "/collective_rpc",
             R"({"method":"update_config","kwargs":{"overrides":{"load_config":{"load_format":"auto"}}}})");
      step(server, "take over new weights", "/collective_rpc",
           Json{{"method", "reload_weights"}, {"kwargs", {{"weights_path", directory}}}}.dump());
      reset_prefix_cache(server);
      set_version(server, std::to_string(version));
    } catch (...) {
      try {
        step(server, "resume", "/resume", "{}");
      } catch (const UserError&) {  // the first failure is the one to tell
      }
      throw;
    }
    step(server, "resume", "/resume", "{}");
  }

 private:
  static void read_version(Connection& server, ServerInfo& info) {
    const net::HttpAnswer answer = server.get("/version");
    if (answer.status == 200) {
      const Json about = object_in(answer.body, server.url() + "/version");
      if (about.contains("weights_version"))
        throw UnfitServer("{}: this is `routeopd serve`; choose engine = \"serve\"", server.url());
      info.version = text_in(about, "version");
    }
    if (info.version.empty())
      throw UnfitServer("{}: it does not answer /version as vLLM does (status {})", server.url(),
                        answer.status);
    if (release_in(info.version) < kOldest)
      throw UnfitServer("{}: it is vLLM {}; {} and newer are supported, and {} was tried", server.url(),
                        info.version, fmt::join(kOldest, "."), fmt::join(kOldest, "."));
  }

  static void read_models(Connection& server, ServerInfo& info) {
    const Json answer = object_in(server.fetch("/v1/models"), server.url() + "/v1/models");
    const Json& models = formats::value_or_null(answer, "data");
    if (models.is_array() && !models.empty() && models[0].is_object()) {
      info.model = text_in(models[0], "id");
      const Json& length = formats::value_or_null(models[0], "max_model_len");
      if (length.is_number_integer()) info.max_positions = length.get<std::int64_t>();
    }
    if (info.model.empty()) throw BadAnswer("{}/v1/models: it names no model", server.url());
  }

  static void check_positions(const Connection& server, const ServerInfo& info, const ServerNeeds& needs) {
    const std::int64_t positions = needs.positions + 1;  // a request that reads writes a token, too
    if (info.max_positions > 0 && info.max_positions < positions)
      throw UnfitServer(
          "{}: it has {} positions, and the longest prompt with its response needs {}; start it with "
          "--max-model-len {}, or try a smaller [rollout] max_new_tokens",
          server.url(), info.max_positions, positions, positions);
  }

  // A server without dev mode does not say which weights it has before it answers.
  static void read_weights(Connection& server, ServerInfo& info, const ServerNeeds& needs, std::int64_t top) {
    const net::HttpAnswer answer = server.get("/weight_info");
    if (answer.status == 200)
      info.weights =
          version_of_label(text_in(object_in(answer.body, server.url() + "/weight_info"), "weight_version"));
    if (!needs.reloads) return;
    if (answer.status != 200)
      throw UnfitServer("{}: it does not take new weights (/weight_info: status {}); {}", server.url(),
                        answer.status, how_to_start(top, needs));
    // A trainer that was killed while weights changed left it waiting.
    const Json paused = object_in(server.fetch("/is_paused"), server.url() + "/is_paused");
    if (formats::flag_or(paused, "is_paused", false)) step(server, "resume", "/resume", "{}");
    read_start(server, info, needs, top);
  }

  // How it was started. Where it cannot say, nothing is assumed.
  static void read_start(Connection& server, ServerInfo& info, const ServerNeeds& needs, std::int64_t top) {
    const net::HttpAnswer answer = server.get("/server_info?config_format=json");
    if (answer.status != 200) return;
    const Json about = object_in(answer.body, server.url() + "/server_info");
    const auto part = [](const Json& object, const char* key) {
      return object.is_object() ? formats::value_or_null(object, key) : Json();
    };
    const Json config = part(about, "vllm_config"),
               overrides = part(part(config, "model_config"), "hf_overrides");
    info.loads_nothing = part(part(config, "load_config"), "load_format") == "dummy";
    info.own_head = needs.tied_head && part(overrides, "tie_word_embeddings") == false;
    if (needs.tied_head && !info.own_head && part(part(config, "device_config"), "device") == "cpu")
      throw UnfitServer(
          "{}: vLLM on a CPU keeps the LM head of its start where it is tied to the embedding; {} {}",
          server.url(), how_to_start(top, needs), kUntied);
  }

  // A request for all ids of one position is answered, or refused with the widest that would be.
  static void read_widths(Connection& server, ServerInfo& info, const ServerNeeds& needs, std::int64_t top) {
    net::HttpAnswer answer = server.post(
        kGenerate, fmt::format(R"({{"model":{},"token_ids":[0,0],"sampling_params":{{"max_tokens":1,)"
                               R"("prompt_logprobs":-1,"detokenize":false}}}})",
                               Json(info.model).dump()));
    if (answer.status == 403 || answer.status == 404) {
      if (needs.writes)
        throw UnfitServer("{}: it has no {} (status {}); {}", server.url(), kGenerate, answer.status,
                          how_to_start(top, needs));
      info.compact = false;
      answer = server.post(kCompletions,
                           fmt::format(R"({{"model":{},"prompt":[0,0],"max_tokens":1,"prompt_logprobs":-1}})",
                                       Json(info.model).dump()));
    }
    if (answer.status == 200) {
      info.all_ids = count_ids(answer.body);
      info.most_top = info.all_ids;
    } else {
      const std::optional<std::int64_t> widest = number_after(answer.body, "greater than max allowed: ");
      if (answer.status != 400 || !widest)
        throw ServerError(answer.status, answer.retry_after,
                          fmt::format("{}: it refuses a request for log-probabilities (status {}): {}",
                                      server.url(), answer.status, answer.body.substr(0, 300)));
      info.most_top = *widest;
    }
    if (!info.compact) return;
    info.per_position_ids =
        server
            .post(kGenerate,
                  fmt::format(R"({{"model":{},"token_ids":[0,0],"sampling_params":{{"max_tokens":1,)"
                              R"("prompt_logprob_token_ids":[[0]],"detokenize":false}}}})",
                              Json(info.model).dump()))
            .status == 200;
  }

  static std::int64_t count_ids(const std::string& body) {
    const Json answer = object_in(body, "vLLM");
    const Json* from = &answer;
    const Json& choices = formats::value_or_null(answer, "choices");
    if (formats::value_or_null(answer, "prompt_logprobs").is_null() && choices.is_array() &&
        !choices.empty() && choices[0].is_object())
      from = &choices[0];
    const Json& rows = formats::value_or_null(*from, "prompt_logprobs");
    if (!rows.is_array() || rows.size() != 2 || !rows[1].is_object())
      throw BadAnswer("vLLM: two tokens were sent, and the values of their positions are not in the answer");
    return std::ssize(rows[1]);
  }

  Way way_of(const ServerInfo& info, const ReadRequest& request, std::int64_t tokens) const {
    if (request.gather_columns == 0) return Way::kNone;
    if (info.per_position_ids && request.gather_columns <= info.most_top) return Way::kPerPosition;
    const bool fits = info.all_ids > 0 && tokens <= kMostBytesOfAllIds / kVllmBytesPerValue / info.all_ids;
    return fits ? Way::kAllIds : Way::kWiderTop;
  }

  void read_one(Connection& server, const ServerInfo& info, const ReadRequest& request,
                std::span<const std::int32_t> response, std::span<const std::int32_t> ids,
                ReadAnswer& into) const {
    const auto states = std::ssize(response);
    const Way way = way_of(info, request, std::ssize(request.prompt_ids) + states);
    const std::int64_t k = std::min(request.k, real_ids_);
    std::int64_t top = k;
    if (way == Way::kAllIds) top = -1;
    if (way == Way::kWiderTop)
      top = std::clamp(kWider * std::max(k, request.gather_columns), k, std::max(k, info.most_top));
    std::string parameters = fmt::format(R"("max_tokens":1,"prompt_logprobs":{})", top);
    if (way == Way::kPerPosition) {
      parameters += fmt::format(R"(,"prompt_logprob_start":{},"prompt_logprob_token_ids":[)",
                                request.prompt_ids.size() - 1);
      for (std::int64_t n = 0; n < states; ++n)
        parameters += fmt::format("{}[{}]", n == 0 ? "" : ",",
                                  fmt::join(ids.subspan(static_cast<std::size_t>(n * request.gather_columns),
                                                        static_cast<std::size_t>(request.gather_columns)),
                                            ","));
      parameters += ']';
    }
    const std::string tokens =
        fmt::format("{},{}", fmt::join(request.prompt_ids, ","), fmt::join(response, ","));
    std::string body =
        info.compact
            ? fmt::format(R"({{"model":{},"token_ids":[{}],"sampling_params":{{{},"detokenize":false}}}})",
                          Json(info.model).dump(), tokens, parameters)
            : fmt::format(R"({{"model":{},"prompt":[{}],{}}})", Json(info.model).dump(), tokens, parameters);
    const std::size_t before = into.answer.id_N.size();
    read_vllm_scores(server.ask(info.compact ? kGenerate : kCompletions, std::move(body)),
                     {.prompt_length = std::ssize(request.prompt_ids),
                      .response_length = states,
                      .real_ids = real_ids_,
                      .k = request.k,
                      .top = top,
                      .gather_ids_NG = ids,
                      .gather_columns = request.gather_columns,
                      .ids_per_position = way == Way::kPerPosition},
                     into);
    const auto rows = static_cast<std::int64_t>(into.answer.id_N.size() - before);
    if (way == Way::kPerPosition) into.counts["ids_per_position"] += rows;
    if (way == Way::kAllIds) into.counts["ids_of_all"] += rows;
    if (way == Way::kWiderTop) into.counts["ids_in_wider_top_k"] += rows;
  }

  static std::string step(Connection& server, const char* what, const char* path, std::string body) {
    try {
      return server.ask(path, std::move(body));
    } catch (const ServerError& error) {
      throw ServerError(error.status(), error.retry_after(),
                        fmt::format("vLLM could not {}: {}", what, error.what()));
    }
  }

  static void set_version(Connection& server, const std::string& label) {
    step(server, "name its weights", "/update_weight_version", Json{{"new_version", label}}.dump());
  }

  // Blocks may be held for a moment after the last request.
  static void reset_prefix_cache(Connection& server) {
    for (int attempt = 0; attempt < 20; ++attempt) {
      const Json answer = object_in(step(server, "clear its prefix cache", "/reset_prefix_cache", "{}"),
                                    "/reset_prefix_cache");
      if (formats::flag_or(answer, "success", false)) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    throw BadAnswer("{}: vLLM did not clear its prefix cache in 20 attempts", server.url());
  }

  std::int32_t real_ids_;
};

}  // namespace

std::unique_ptr<ServerApi> make_vllm_api(std::int32_t real_ids) {
  return std::make_unique<VllmApi>(real_ids);
}

}  // namespace routeopd::engine
