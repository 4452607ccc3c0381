// vLLM's client against a server that answers in its shapes, over real HTTP: what is refused, how values at
// given ids are had, in which order weights change.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/stand_in_server.h"
#include "routeopd/engine/remote/server_api.h"
#include "testing_errors.h"

namespace routeopd::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int32_t kStandInIds = 8;
constexpr std::int64_t kWidest = 6;  // --max-logprobs of the stand-in, unless it gives all

// The distribution of every state: id i has log-probability log((i + 1) / 36), so 7 is the best.
double stand_in_logprob(int id, double temperature = 1) {
  double sum = 0;
  for (int i = 0; i < kStandInIds; ++i) sum += std::pow(i + 1.0, 1 / temperature);
  return std::log(std::pow(id + 1.0, 1 / temperature) / sum);
}

struct VllmLook {
  bool all_ids = false;
  bool per_position = false;
  bool scaled = false;  // values after the temperature
  std::string version = "0.32.0";
  std::string weights = "default";
};

// A vLLM whose model is the distribution above.
class VllmStandIn : public StandInServer {
 public:
  explicit VllmStandIn(VllmLook look = {}) : look_(std::move(look)) {
    on("/version", fmt::format(R"({{"version":"{}"}})", look_.version));
    on("/v1/models", R"({"data":[{"id":"m","max_model_len":64}]})");
    on("/weight_info", fmt::format(R"({{"weight_version":"{}"}})", look_.weights));
    on("/is_paused", R"({"is_paused":false})");
    for (const char* path : {"/pause", "/resume", "/collective_rpc", "/update_weight_version"})
      on(path, "{}");
    on("/reset_prefix_cache", R"({"success":true})");
    on("/inference/v1/generate", [this](const Json& body) {
      return generated(body.at("token_ids"), body.at("sampling_params"), /*compact=*/true);
    });
    on("/v1/completions", [this](const Json& body) { return generated(body.at("prompt"), body, false); });
  }

 private:
  static Json entry(int id, double temperature = 1) {
    return {{"token_id", id}, {"logprob", stand_in_logprob(id, temperature)}, {"rank", kStandInIds - id}};
  }

  static std::string value_of(int id) {
    return fmt::format(R"("{}":{{"logprob":{},"rank":{}}})", id, stand_in_logprob(id), kStandInIds - id);
  }

  Said generated(const Json& tokens, const Json& parameters, bool compact) const {
    Json choice = {{"index", 0},
                   {"finish_reason", "length"},
                   {"token_ids", {5}},
                   {"weight_versions", {{{"version", look_.weights}, {"start", 0}, {"end", 1}}}}};
    Json answer = {{"request_id", "r"}};
    if (parameters.contains("temperature") && parameters.at("temperature") > 2)
      return {400, R"({"error":{"message":"temperature must be in [0, 2]"}})"};
    if (parameters.contains("logprobs")) {
      const double temperature = look_.scaled ? parameters.at("temperature").get<double>() : 1;
      Json best = Json::array({entry(5, temperature)});
      for (int id = kStandInIds; id-- > 0 && std::ssize(best) < parameters.at("logprobs");)
        if (id != 5) best.push_back(entry(id, temperature));
      Json token = entry(5, temperature);
      token["top_logprobs"] = best;
      choice["logprobs"] = {{"content", {token}}};
    }
    if (parameters.contains("prompt_logprobs")) {
      std::int64_t top = parameters.at("prompt_logprobs");
      if (top < 0 && look_.all_ids) top = kStandInIds;
      if (!look_.all_ids && (top < 0 || top > kWidest))
        return {400, fmt::format(R"({{"error":{{"message":"{} is greater than max allowed: {}"}}}})", top,
                                 kWidest)};
      std::string scores = "[null";  // not a Json, which sorts keys: the token that was read comes first
      for (std::size_t t = 1; t < tokens.size(); ++t) {
        const int own = tokens[t].get<int>();
        std::string row = value_of(own);
        for (int id = kStandInIds; id-- > kStandInIds - top;)
          if (id != own) row += "," + value_of(id);
        scores += ",{" + row + "}";
      }
      scores += "]";
      if (parameters.contains("prompt_logprob_token_ids") && !look_.per_position)
        return {400, R"({"error":{"message":"needs the V2 model runner"}})"};
      if (!compact) {
        std::string one = choice.dump();
        one.back() = ',';
        return {200, fmt::format(R"({{"choices":[{}"prompt_logprobs":{}}}]}})", one, scores)};
      }
      return {200, fmt::format(R"({{"prompt_logprobs":{},{}"choices":[{}]}})", scores,
                               look_.per_position ? kArray : "", choice.dump())};
    }
    if (parameters.contains("prompt_logprob_token_ids") && !look_.per_position)
      return {400, R"({"error":{"message":"needs the V2 model runner"}})"};
    answer["choices"] = Json::array({choice});
    return {200, answer.dump()};
  }

  // [[-1, -2], [-3, -4], [-5, -6]] of float32, as numpy saves it.
  static constexpr const char* kArray =
      "\"prompt_token_id_logprobs\":\""
      "k05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDMsIDIpLCB9ICAg"
      "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAIC/AAAAwAAAQMAAAIDA"
      "AACgwAAAwMA="
      "\",";

  VllmLook look_;
};

const ServerNeeds kWriterNeeds{
    .writes = true, .reloads = true, .k = 2, .real_ids = kStandInIds, .positions = 8};
const ServerNeeds kScorerNeeds{.k = 2, .real_ids = kStandInIds, .positions = 8};

ServerInfo vllm_info(const StandInServer& server, const ServerNeeds& needs) {
  Connection connection = server.connect();
  return make_vllm_api(kStandInIds)->identify(connection, needs);
}

std::string vllm_refusal(const StandInServer& server, const ServerNeeds& needs) {
  try {
    vllm_info(server, needs);
  } catch (const UnfitServer& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> paths_asked(const StandInServer& server) {
  std::vector<std::string> paths;
  for (const auto& [path, body] : server.asked()) paths.push_back(path);
  return paths;
}

TEST(VllmApi, SaysWhatItIs) {
  const VllmStandIn server(VllmLook{.weights = "41"});
  const ServerInfo info = vllm_info(server, kWriterNeeds);
  EXPECT_EQ(info.model, "m");
  EXPECT_EQ(info.version, "0.32.0");
  EXPECT_EQ(info.max_positions, 64);
  EXPECT_EQ(info.most_top, kWidest);
  EXPECT_EQ(info.all_ids, 0);
  EXPECT_FALSE(info.per_position_ids);
  EXPECT_TRUE(info.compact);
  EXPECT_EQ(info.weights, 41);
}

TEST(VllmApi, WeightsThatWeDidNotGiveAreForeign) {
  EXPECT_EQ(vllm_info(VllmStandIn(), kWriterNeeds).weights, kForeignVersion);
  EXPECT_EQ(vllm_info(VllmStandIn(VllmLook{.weights = "loading 7"}), kWriterNeeds).weights, kForeignVersion);
}

TEST(VllmApi, AnUnsupportedVersionIsRefusedWithWhatIsSupported) {
  for (const char* version : {"0.31.9", "0.8.5.post1", "nightly"})
    EXPECT_THAT(vllm_refusal(VllmStandIn(VllmLook{.version = version}), kScorerNeeds),
                HasSubstr(fmt::format("it is vLLM {}; 0.32.0 and newer are supported", version)));
  EXPECT_EQ(vllm_refusal(VllmStandIn(VllmLook{.version = "0.32.1.dev0+cpu"}), kScorerNeeds), "");
  EXPECT_EQ(vllm_refusal(VllmStandIn(VllmLook{.version = "1.0.0"}), kScorerNeeds), "");
  VllmStandIn other;
  other.on("/version", "{}", 404);
  EXPECT_THAT(vllm_refusal(other, kScorerNeeds), HasSubstr("does not answer /version as vLLM does"));
}

TEST(VllmApi, AStudentsServerNeedsDevMode) {
  VllmStandIn server;
  server.on("/weight_info", "{}", 404);
  EXPECT_THAT(vllm_refusal(server, kWriterNeeds), AllOf(HasSubstr("does not take new weights"),
                                                        HasSubstr("start it with VLLM_SERVER_DEV_MODE=1")));
  EXPECT_FALSE(vllm_info(server, kScorerNeeds).weights.has_value());  // a teacher's does not
}

TEST(VllmApi, AStudentsServerNeedsTheEndpointOfTokens) {
  VllmStandIn server;
  server.on("/inference/v1/generate", R"({"detail":"Forbidden"})", 403);
  EXPECT_THAT(vllm_refusal(server, kWriterNeeds),
              AllOf(HasSubstr("it has no /inference/v1/generate"), HasSubstr("--enable-scale-out")));
  EXPECT_FALSE(vllm_info(server, kScorerNeeds).compact);
}

TEST(VllmApi, TooFewValuesAreRefusedWithTheWidthThatIsNeeded) {
  ServerNeeds wide = kScorerNeeds;
  wide.k = 7;
  EXPECT_THAT(vllm_refusal(VllmStandIn(), wide),
              AllOf(HasSubstr("answers 6 log-probabilities per token, and 7 are needed"),
                    HasSubstr("--max-logprobs 28")));
  ServerNeeds writer = kWriterNeeds;
  writer.k = 6;  // the token itself takes one
  EXPECT_THAT(vllm_refusal(VllmStandIn(), writer), HasSubstr("and 7 are needed"));
  writer.k = 5;
  EXPECT_EQ(vllm_refusal(VllmStandIn(), writer), "");
}

TEST(VllmApi, TooFewPositionsAreRefused) {
  ServerNeeds longer = kScorerNeeds;
  longer.positions = 64;  // and a token that a request to read writes
  EXPECT_THAT(vllm_refusal(VllmStandIn(), longer), HasSubstr("--max-model-len 65"));
  longer.positions = 63;
  EXPECT_EQ(vllm_refusal(VllmStandIn(), longer), "");
}

TEST(VllmApi, ValuesAfterTheTemperatureAreRefused) {
  EXPECT_THAT(vllm_refusal(VllmStandIn(VllmLook{.scaled = true}), kWriterNeeds),
              AllOf(HasSubstr("after temperature"), HasSubstr("--logprobs-mode raw_logprobs")));
}

TEST(VllmApi, AServerThatWasLeftWaitingIsResumed) {
  VllmStandIn server;
  server.on("/is_paused", R"({"is_paused":true})");
  vllm_info(server, kWriterNeeds);
  EXPECT_THAT(paths_asked(server), ::testing::Contains("/resume"));
}

const std::vector<std::int32_t> kPromptRead = {1, 2}, kResponseRead = {7, 0, 5};

ReadAnswer vllm_read(const StandInServer& server, ServerInfo info, std::span<const std::int32_t> ids,
                     std::int64_t columns) {
  Connection connection = server.connect();
  return make_vllm_api(kStandInIds)
      ->read(connection, info,
             {.prompt_ids = kPromptRead,
              .responses = {kResponseRead},
              .k = 2,
              .gather_ids_NG = ids,
              .gather_columns = columns});
}

TEST(VllmApi, ReadsEveryTokenOfAResponse) {
  for (const bool compact : {true, false}) {
    const VllmStandIn server;
    const ReadAnswer read = vllm_read(server, {.model = "m", .most_top = kWidest, .compact = compact}, {}, 0);
    EXPECT_EQ(read.answer.id_N, kResponseRead);
    EXPECT_THAT(read.answer.values.top_ids_NK, ElementsAre(7, 6, 7, 6, 7, 6));
    EXPECT_FLOAT_EQ(read.answer.values.top_logits_NK[1], static_cast<float>(stand_in_logprob(6)));
    EXPECT_EQ(read.version, kForeignVersion);
    EXPECT_EQ(read.counts, Counts{});
    EXPECT_EQ(paths_asked(server).back(), compact ? "/inference/v1/generate" : "/v1/completions");
  }
}

TEST(VllmApi, GivenIdsComeFromAllIdsWhereTheyFit) {
  const VllmStandIn server(VllmLook{.all_ids = true});
  const std::vector<std::int32_t> ids = {0, 3, 1, -1, 0, 7};
  const ReadAnswer read = vllm_read(server, vllm_info(server, kScorerNeeds), ids, 2);
  EXPECT_EQ(read.counts, (Counts{{"ids_of_all", 3}}));
  EXPECT_FLOAT_EQ(read.answer.values.gathered_NG[1], static_cast<float>(stand_in_logprob(3)));
  EXPECT_THAT(read.answer.values.known_NG, ElementsAre(1, 1, 1, 1, 1, 1));
}

TEST(VllmApi, AllIdsAreNotAskedForPastTheLimitOfBytes) {
  const VllmStandIn server(VllmLook{.all_ids = true});
  ServerInfo info = vllm_info(server, kScorerNeeds);
  info.all_ids = kMostBytesOfAllIds / 80 / 5 + 1;  // five tokens, 80 bytes a value
  info.most_top = kWidest;
  const std::vector<std::int32_t> ids = {0, 3, 1, -1, 0, 7};
  EXPECT_EQ(vllm_read(server, info, ids, 2).counts, (Counts{{"ids_in_wider_top_k", 3}, {"not_known", 3}}));
  --info.all_ids;
  EXPECT_EQ(vllm_read(server, info, ids, 2).counts, (Counts{{"ids_of_all", 3}}));
}

TEST(VllmApi, GivenIdsAreLookedUpInAWiderTopK) {
  const VllmStandIn server;
  const std::vector<std::int32_t> ids = {0, 3, 0, -1, 1, 7};
  const ReadAnswer read = vllm_read(server, vllm_info(server, kScorerNeeds), ids, 2);
  // The six best are 2 to 7; the second state's own token, 0, is listed, too.
  EXPECT_EQ(read.counts, (Counts{{"ids_in_wider_top_k", 3}, {"not_known", 2}}));
  EXPECT_THAT(read.answer.values.known_NG, ElementsAre(0, 1, 1, 1, 0, 1));
  EXPECT_TRUE(std::isnan(read.answer.values.gathered_NG[0]));
  EXPECT_FLOAT_EQ(read.answer.values.gathered_NG[1], static_cast<float>(stand_in_logprob(3)));
  EXPECT_EQ(server.asked().back().second.at("sampling_params").at("prompt_logprobs"), kWidest);
}

TEST(VllmApi, GivenIdsAreAskedForPositionByPosition) {
  const VllmStandIn server(VllmLook{.per_position = true});
  const ServerInfo info = vllm_info(server, kScorerNeeds);
  EXPECT_TRUE(info.per_position_ids);
  const std::vector<std::int32_t> ids = {0, 3, 0, -1, 1, 7};
  const ReadAnswer read = vllm_read(server, info, ids, 2);
  EXPECT_EQ(read.counts, (Counts{{"ids_per_position", 3}}));
  EXPECT_EQ(read.answer.values.gathered_NG[0], -1);
  EXPECT_TRUE(std::isnan(read.answer.values.gathered_NG[3]));  // a pad
  EXPECT_EQ(read.answer.values.gathered_NG[5], -6);
  const Json sent = server.asked().back().second.at("sampling_params");
  EXPECT_EQ(sent.at("prompt_logprob_token_ids"), Json::parse("[[0,3],[0,-1],[1,7]]"));
  EXPECT_EQ(sent.at("prompt_logprob_start"), 1);
}

Json vllm_written(std::uint32_t step, std::uint32_t prompt, std::int32_t sample,
                  std::vector<std::string> stop = {}) {
  const VllmStandIn server;
  Connection connection = server.connect();
  const Sampling sampling{.n = 4,
                          .decoding = {.temperature = 0.5, .top_p = 0.9},
                          .max_new_tokens = 3,
                          .seed = 11,
                          .step = step,
                          .stop = std::move(stop)};
  const std::vector<std::int32_t> samples = {sample};
  const WrittenAnswer written = make_vllm_api(kStandInIds)
                                    ->write(connection, {.model = "m"},
                                            {.prompt_ids = kPromptRead,
                                             .prompt_number = prompt,
                                             .samples = samples,
                                             .sampling = &sampling,
                                             .capture = {.k = 2}});
  EXPECT_THAT(written.rollout.id_N, ElementsAre(5));
  EXPECT_THAT(written.rollout.top_ids_NK, ElementsAre(7, 6));
  return server.asked().back().second;
}

TEST(VllmApi, WritesAtTheDecodingThatWasAskedFor) {
  const Json body = vllm_written(0, 0, 0), sent = body.at("sampling_params");
  EXPECT_EQ(body.at("token_ids"), Json(kPromptRead));
  EXPECT_EQ(sent.at("temperature"), 0.5);
  EXPECT_EQ(sent.at("top_p"), 0.9);
  EXPECT_EQ(sent.at("max_tokens"), 3);
  EXPECT_EQ(sent.at("logprobs"), 3);  // the token takes one
  EXPECT_EQ(sent.at("detokenize"), false);
  EXPECT_EQ(vllm_written(0, 0, 0, {"\n\"end"}).at("sampling_params").at("stop"), Json({"\n\"end"}));
}

TEST(VllmApi, SeedsDependOnTheAddressAlone) {
  const auto seed = [](std::uint32_t step, std::uint32_t prompt, std::int32_t sample) {
    return vllm_written(step, prompt, sample).at("sampling_params").at("seed").get<std::int64_t>();
  };
  const std::set<std::int64_t> seeds = {seed(0, 0, 0), seed(1, 0, 0), seed(0, 1, 0), seed(0, 0, 1),
                                        seed(1, 1, 1)};
  EXPECT_EQ(seeds.size(), 5U);
  EXPECT_GE(*seeds.begin(), 0);  // it must fit into 63 bits
  EXPECT_EQ(seed(1, 2, 3), seed(1, 2, 3));
}

void vllm_reload(const StandInServer& server, ServerInfo info = {}) {
  Connection connection = server.connect();
  info.model = "m";
  make_vllm_api(kStandInIds)->reload(connection, info, "/shared/weights-9", 9);
}

std::string vllm_start(const char* device, const char* load_format, const char* overrides) {
  return fmt::format(
      R"({{"vllm_config":{{"device_config":{{"device":"{}"}},"load_config":{{"load_format":"{}"}},)"
      R"("model_config":{{"hf_overrides":{}}}}}}})",
      device, load_format, overrides);
}

// Its reload does not reach the packed copy of a tied head on a CPU.
TEST(VllmApi, ATiedHeadOnACpuIsRefusedUnlessItIsToldApart) {
  VllmStandIn server;
  ServerNeeds tied = kWriterNeeds;
  tied.tied_head = true;
  EXPECT_FALSE(vllm_info(server, tied).own_head) << "a server that does not say how it was started";
  server.on("/server_info", vllm_start("cpu", "auto", "{}"));
  EXPECT_THAT(vllm_refusal(server, tied),
              AllOf(HasSubstr("keeps the LM head of its start"), HasSubstr("--load-format dummy"),
                    HasSubstr(R"(--hf-overrides '{"tie_word_embeddings": false}')")));
  EXPECT_EQ(vllm_refusal(server, kWriterNeeds), "") << "the head has a weight of its own";
  server.on("/server_info", vllm_start("cuda", "auto", "{}"));
  EXPECT_FALSE(vllm_info(server, tied).own_head);
  server.on("/server_info", vllm_start("cpu", "dummy", R"({"tie_word_embeddings":false})"));
  const ServerInfo info = vllm_info(server, tied);
  EXPECT_TRUE(info.own_head);
  EXPECT_TRUE(info.loads_nothing);
  EXPECT_FALSE(vllm_info(server, kWriterNeeds).own_head) << "it is written under its own name anyway";
}

TEST(VllmApi, AServerThatLoadedNothingIsToldToLoad) {
  const VllmStandIn server;
  vllm_reload(server, {.loads_nothing = true});
  const auto asked = server.asked();
  ASSERT_EQ(asked.size(), 7U);
  EXPECT_EQ(asked[2].second.at("method"), "update_config");
  EXPECT_EQ(asked[2].second.at("kwargs").at("overrides").at("load_config").at("load_format"), "auto");
  EXPECT_EQ(asked[3].second.at("method"), "reload_weights");
}

TEST(VllmApi, WeightsChangeWhileTheServerWaits) {
  const VllmStandIn server;
  vllm_reload(server);
  EXPECT_THAT(paths_asked(server),
              ElementsAre("/pause?mode=wait", "/update_weight_version", "/collective_rpc",
                          "/reset_prefix_cache", "/update_weight_version", "/resume"));
  const auto asked = server.asked();
  EXPECT_EQ(asked[1].second.at("new_version"), "loading 9");
  EXPECT_EQ(asked[2].second.at("method"), "reload_weights");
  EXPECT_EQ(asked[2].second.at("kwargs").at("weights_path"), "/shared/weights-9");
  EXPECT_EQ(asked[4].second.at("new_version"), "9");
}

TEST(VllmApi, AReloadThatFailsResumesTheServerUnderNoVersionOfOurs) {
  VllmStandIn server;
  server.on("/collective_rpc", R"({"error":{"message":"no such file"}})", 500);
  EXPECT_THAT(error_of([&] { vllm_reload(server); }),
              AllOf(HasSubstr("could not take over new weights"), HasSubstr("no such file")));
  EXPECT_THAT(paths_asked(server),
              ElementsAre("/pause?mode=wait", "/update_weight_version", "/collective_rpc", "/resume"));
  server.on("/resume", "{}", 500);  // the first failure is the one that is told
  EXPECT_THAT(error_of([&] { vllm_reload(server); }), HasSubstr("no such file"));
}

TEST(VllmApi, ACacheThatIsHeldIsClearedAgain) {
  VllmStandIn server;
  int asked = 0;
  server.on("/reset_prefix_cache", [&](const Json&) {
    return StandInServer::Said{200, ++asked < 3 ? R"({"success":false})" : R"({"success":true})"};
  });
  vllm_reload(server);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(paths_asked(server).back(), "/resume");
}

}  // namespace
}  // namespace routeopd::engine
