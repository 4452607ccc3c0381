// SGLang's HTTP interface, meant for 0.5.23. It has not met a live server: SGLang needs an accelerator. Nor
// was it written beside that release: what follows was read in copies of SGLang's source of 2025 and 2026
// whose release is not known.
//
// It is asked one response at a time, by /generate with ids.
//
// Facts that requests depend on, read there:
//   - with logprob_start_len s, entry i of input_token_logprobs is about token s + i, and entry 0 is null;
//   - answers name weight_version as it is when a request ends; /update_weights_from_disk takes a lock that
//     requests hold, so no answer is of two;
//   - /server_info has the arguments, max_req_input_len and the version; /get_server_info is its older name;
//   - with speculative decoding, values of written tokens are those after the temperature, unless
//     SGLANG_RETURN_ORIGINAL_LOGPROB=1, and minus infinity is the lowest float.
// Taken to be so, and to be looked up or tried first when a server is at hand:
//   - the same two hold for the plain sampler (identify() finds out about the first);
//   - values at given ids (token_ids_logprob) are one set for all positions of a request;
//   - sampling_seed is read with --enable-deterministic-inference alone;
//   - max_new_tokens 0 reads without writing; NaN, and minus infinity that was not clamped, are sent as null.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "routeopd/engine/remote/api_common.h"
#include "routeopd/engine/remote/json_answer.h"
#include "routeopd/engine/remote/server_api.h"
#include "routeopd/engine/remote/sglang_answers.h"
#include "routeopd/formats/json_file.h"

namespace routeopd::engine {
namespace {

constexpr std::array<int, 3> kOldestSglang = {0, 5, 23};
constexpr std::int64_t kSglangBytesPerValue = 36;  // [-12.345678901234567,151935,null],
constexpr std::int64_t kWiderOfSglang = 4;         // times k: a top-k in which given ids are looked up
constexpr std::int32_t kComparedOfSglang = 16;     // values, when a server is asked what it sends

const std::string& how_to_start_sglang() {
  static const std::string how =
      "start it with SGLANG_RETURN_ORIGINAL_LOGPROB=1 python -m sglang.launch_server --model-path DIR "
      "--enable-deterministic-inference";
  return how;
}

class SglangApi final : public ServerApi {
 public:
  explicit SglangApi(std::int32_t real_ids) : real_ids_(real_ids) {}

  std::string name() const override { return "sglang"; }
  Capabilities capabilities() const override { return {}; }
  bool several_samples() const override { return false; }

  ServerInfo identify(Connection& server, const ServerNeeds& needs) const override {
    ServerInfo info;
    const Json about = told(server, "/server_info", "/get_server_info");
    info.version = text_in(about, "version");
    if (release_in(info.version) < kOldestSglang)
      throw UnfitServer("{}: it is SGLang {}; {} and newer are supported", server.url(),
                        info.version.empty() ? "of no version" : info.version, fmt::join(kOldestSglang, "."));
    info.seeds = formats::flag_or(about, "enable_deterministic_inference", false);
    for (const char* name : {"context_length", "max_req_input_len"}) {  // the latter is the one that binds
      const Json& positions = formats::value_or_null(about, name);
      if (positions.is_number_integer()) info.max_positions = positions.get<std::int64_t>();
    }
    if (info.max_positions > 0 && info.max_positions < needs.positions)
      throw UnfitServer(
          "{}: it takes {} positions, and the longest prompt with its response needs {}; start it with a "
          "larger "
          "--context-length, or try a smaller [rollout] max_new_tokens",
          server.url(), info.max_positions, needs.positions);
    const Json model = told(server, "/model_info", "/get_model_info");
    info.model = text_in(model, "model_path");
    if (!formats::flag_or(model, "is_generation", true))
      throw UnfitServer("{}: its model does not write text; {}", server.url(), how_to_start_sglang());
    info.weights = version_of_label(text_in(model, "weight_version"));
    check_log_probabilities(*this, server, info, needs.writes, std::min(kComparedOfSglang, real_ids_),
                            how_to_start_sglang());
    return info;
  }

  WrittenAnswer write(Connection& server, const ServerInfo& info,
                      const WriteRequest& request) const override {
    const Sampling& sampling = *request.sampling;
    WrittenAnswer written;
    for (const std::int32_t sample : request.samples) {
      std::string body = fmt::format(
          R"({{"input_ids":[{}],"return_logprob":true,"logprob_start_len":-1,"top_logprobs_num":{},)"
          R"("sampling_params":{{"n":1,"temperature":{},"top_p":{},"top_k":{},"sampling_seed":{},)"
          R"("max_new_tokens":{},"ignore_eos":{},"stop":{}}}}})",
          fmt::join(request.prompt_ids, ","), std::min(request.capture.k, real_ids_),
          sampling.decoding.temperature, sampling.decoding.top_p,
          sampling.decoding.top_k > 0 ? sampling.decoding.top_k : -1,
          response_seed(sampling, request.prompt_number, sample) >> 33U, sampling.max_new_tokens,
          sampling.ignore_eos, Json(sampling.stop).dump());
      read_sglang_response(server.ask("/generate", std::move(body)),
                           {.sample = sample,
                            .real_ids = real_ids_,
                            .k = request.capture.k,
                            .max_new_tokens = sampling.max_new_tokens},
                           written);
      if (!info.seeds && sampling.decoding.temperature > 0) ++written.counts["without_seed"];
    }
    return written;
  }

  ReadAnswer read(Connection& server, const ServerInfo& /*info*/, const ReadRequest& request) const override {
    if (request.prompt_ids.empty()) throw UserError("SGLang cannot read a response without a prompt");
    ReadAnswer read;
    const auto columns = static_cast<std::size_t>(request.gather_columns);
    std::size_t first = 0;
    for (const std::span<const std::int32_t> response : request.responses) {
      read_one(server, request, response,
               request.gather_ids_NG.subspan(first * columns, response.size() * columns), read);
      first += response.size();
    }
    return read;
  }

  std::vector<float> gather(Connection& /*server*/, const ServerInfo& /*info*/,
                            std::span<const float> /*hidden_NH*/, std::int64_t /*hidden_size*/,
                            std::span<const std::int32_t> /*ids_NG*/, std::int64_t /*columns*/,
                            std::int64_t /*version*/) const override {
    throw UserError("SGLang has no values from hidden states");
  }

  void reload(Connection& server, const ServerInfo& /*info*/, const std::string& directory,
              std::int64_t version) const override {
    const std::string url = server.url() + "/update_weights_from_disk";
    const Json answer =
        object_in(server.ask("/update_weights_from_disk", Json{{"model_path", directory},
                                                               {"weight_version", std::to_string(version)},
                                                               {"flush_cache", true},
                                                               {"abort_all_requests", false}}
                                                              .dump()),
                  url);
    if (!formats::flag_or(answer, "success", false))
      throw BadAnswer("{}: it did not take over the weights in {}: {}", url, directory,
                      text_in(answer, "message"));
  }

 private:
  // What it says of itself, at the address of today's releases or at the one that they replace.
  static Json told(Connection& server, const char* path, const char* older) {
    const net::HttpAnswer answer = server.get(path);
    if (answer.status == 200) return object_in(answer.body, server.url() + path);
    try {
      return object_in(server.fetch(older), server.url() + older);
    } catch (const ServerError& error) {
      if (error.status() != 404) throw;
      throw UnfitServer("{}: it does not answer {} as SGLang does (status {})", server.url(), path,
                        answer.status);
    }
  }

  // The ids of all states of a response, ascending.
  static std::vector<std::int32_t> union_of(std::span<const std::int32_t> ids) {
    std::vector<std::int32_t> all(ids.begin(), ids.end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (!all.empty() && all.front() < 0) all.erase(all.begin());  // -1 pads
    return all;
  }

  void read_one(Connection& server, const ReadRequest& request, std::span<const std::int32_t> response,
                std::span<const std::int32_t> ids, ReadAnswer& into) const {
    const auto states = std::ssize(response);
    const std::vector<std::int32_t> all = union_of(ids);
    const bool gathers = !all.empty();
    const bool fits =
        std::ssize(all) <= kMostBytesOfAllIds / kSglangBytesPerValue / std::max<std::int64_t>(1, states);
    const std::int64_t k = std::min(request.k, real_ids_);
    std::int64_t top = k;
    if (gathers && !fits)
      top = std::min<std::int64_t>(kWiderOfSglang * std::max(k, request.gather_columns), real_ids_);
    std::string body = fmt::format(
        R"({{"input_ids":[{},{}],"return_logprob":true,"logprob_start_len":{},"top_logprobs_num":{},)"
        R"("sampling_params":{{"temperature":0,"max_new_tokens":0}})",
        fmt::join(request.prompt_ids, ","), fmt::join(response, ","), request.prompt_ids.size() - 1, top);
    if (gathers && fits) body += fmt::format(R"(,"token_ids_logprob":[{}])", fmt::join(all, ","));
    body += '}';
    const std::size_t before = into.answer.id_N.size();
    read_sglang_scores(server.ask("/generate", std::move(body)),
                       {.response_length = states,
                        .real_ids = real_ids_,
                        .k = request.k,
                        .top = top,
                        .gather_ids_NG = ids,
                        .gather_columns = request.gather_columns,
                        .ids_of_request = gathers && fits},
                       into);
    into.answer.values.tokens_read += std::ssize(request.prompt_ids) + states;
    if (gathers)
      into.counts[fits ? "ids_of_request" : "ids_in_wider_top_k"] +=
          static_cast<std::int64_t>(into.answer.id_N.size() - before);
  }

  std::int32_t real_ids_;
};

}  // namespace

std::unique_ptr<ServerApi> make_sglang_api(std::int32_t real_ids) {
  return std::make_unique<SglangApi>(real_ids);
}

}  // namespace routeopd::engine
