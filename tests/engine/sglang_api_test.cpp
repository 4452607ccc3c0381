// SGLang's client against a server that answers in the shapes of its source, over real HTTP, and everything
// that an answer can have wrong.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "engine/stand_in_server.h"
#include "routeopd/engine/remote/server_api.h"
#include "routeopd/engine/remote/sglang_answers.h"
#include "testing_errors.h"

namespace routeopd::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int32_t kSglangIds = 8;

// The distribution of every state: id i has log-probability log((i + 1) / 36), so 7 is the best.
double sglang_logprob(int id, double temperature = 1) {
  double sum = 0;
  for (int i = 0; i < kSglangIds; ++i) sum += std::pow(i + 1.0, 1 / temperature);
  return std::log(std::pow(id + 1.0, 1 / temperature) / sum);
}

struct SglangLook {
  bool scaled = false;  // SGLANG_RETURN_ORIGINAL_LOGPROB is not set
  bool deterministic = true;
  std::string version = "0.5.23";
  std::string weights = "default";
};

// A SGLang whose model is the distribution above.
class SglangStandIn : public StandInServer {
 public:
  explicit SglangStandIn(SglangLook look = {}) : look_(std::move(look)) {
    on("/server_info", Json{{"version", look_.version},
                            {"context_length", nullptr},
                            {"max_req_input_len", 58},
                            {"enable_deterministic_inference", look_.deterministic}}
                           .dump());
    on("/model_info",
       Json{{"model_path", "dir/m"}, {"is_generation", true}, {"weight_version", look_.weights}}.dump());
    on("/update_weights_from_disk", R"({"success":true,"message":"Succeeded","num_paused_requests":0})");
    on("/generate", [this](const Json& body) { return generated(body); });
  }

 private:
  static Json entry(int id, double temperature = 1) {
    return Json::array({sglang_logprob(id, temperature), id, nullptr});
  }
  static Json best(int count, double temperature = 1) {
    Json list = Json::array();
    for (int id = kSglangIds; id-- > 0 && std::ssize(list) < count;) list.push_back(entry(id, temperature));
    return list;
  }

  Said generated(const Json& body) const {
    const Json &tokens = body.at("input_ids"), &parameters = body.at("sampling_params");
    const int top = body.at("top_logprobs_num");
    Json about = {{"id", "r"},
                  {"weight_version", look_.weights},
                  {"finish_reason", {{"type", "length"}, {"length", 1}}}};
    Json written = Json::array();
    if (parameters.at("max_new_tokens") > 0) {
      const double temperature = look_.scaled ? parameters.at("temperature").get<double>() : 1;
      written = {5};
      about["output_token_logprobs"] = Json::array({entry(5, temperature)});
      about["output_top_logprobs"] = Json::array({best(top, temperature)});
    } else {
      const std::size_t first = body.at("logprob_start_len").get<std::size_t>();
      Json own = Json::array({Json::array({nullptr, tokens.at(first), nullptr})});
      Json tops = Json::array({nullptr}), given = Json::array({nullptr});
      for (std::size_t t = first + 1; t < tokens.size(); ++t) {
        own.push_back(entry(tokens[t].get<int>()));
        tops.push_back(best(top));
        if (!body.contains("token_ids_logprob")) continue;
        Json list = Json::array();
        for (const Json& id : body.at("token_ids_logprob")) list.push_back(entry(id.get<int>()));
        given.push_back(list);
      }
      about["input_token_logprobs"] = own;
      if (top > 0) about["input_top_logprobs"] = tops;
      if (body.contains("token_ids_logprob")) about["input_token_ids_logprobs"] = given;
    }
    return {200, Json{{"text", ""}, {"output_ids", written}, {"meta_info", about}}.dump()};
  }

  SglangLook look_;
};

const ServerNeeds kSglangWriter{
    .writes = true, .reloads = true, .k = 2, .real_ids = kSglangIds, .positions = 8};
const ServerNeeds kSglangScorer{.k = 2, .real_ids = kSglangIds, .positions = 8};

ServerInfo sglang_info(const StandInServer& server, const ServerNeeds& needs) {
  Connection connection = server.connect();
  return make_sglang_api(kSglangIds)->identify(connection, needs);
}

std::string sglang_refusal(const StandInServer& server, const ServerNeeds& needs) {
  try {
    sglang_info(server, needs);
  } catch (const UnfitServer& error) {
    return error.what();
  }
  return "";
}

TEST(SglangApi, SaysWhatItIs) {
  const ServerInfo info = sglang_info(SglangStandIn(SglangLook{.weights = "41"}), kSglangWriter);
  EXPECT_EQ(info.model, "dir/m");
  EXPECT_EQ(info.version, "0.5.23");
  EXPECT_EQ(info.max_positions, 58);
  EXPECT_TRUE(info.seeds);
  EXPECT_EQ(info.weights, 41);
  EXPECT_EQ(sglang_info(SglangStandIn(), kSglangScorer).weights, kForeignVersion);
}

TEST(SglangApi, IsAskedAtTheOlderAddressesToo) {
  SglangStandIn server;
  for (const char* path : {"/server_info", "/model_info"}) server.on(path, "{}", 404);
  EXPECT_THAT(sglang_refusal(server, kSglangScorer),
              HasSubstr("does not answer /server_info as SGLang does"));
  server.on("/get_server_info", R"({"version":"0.5.23"})");
  server.on("/get_model_info", R"({"model_path":"older","weight_version":"3"})");
  const ServerInfo info = sglang_info(server, kSglangScorer);
  EXPECT_EQ(info.model, "older");
  EXPECT_EQ(info.weights, 3);
}

TEST(SglangApi, AnUnsupportedVersionIsRefusedWithWhatIsSupported) {
  for (const char* version : {"0.5.22", "0.4.99", "nightly"})
    EXPECT_THAT(sglang_refusal(SglangStandIn(SglangLook{.version = version}), kSglangScorer),
                HasSubstr(fmt::format("it is SGLang {}; 0.5.23 and newer are supported", version)));
  for (const char* version : {"0.5.23.post1", "0.5.24rc0", "0.6.0", "1.0.0"})
    EXPECT_EQ(sglang_refusal(SglangStandIn(SglangLook{.version = version}), kSglangScorer), "") << version;
}

TEST(SglangApi, TooFewPositionsAreRefused) {
  ServerNeeds longer = kSglangScorer;
  longer.positions = 59;
  EXPECT_THAT(sglang_refusal(SglangStandIn(), longer), HasSubstr("takes 58 positions"));
  longer.positions = 58;
  EXPECT_EQ(sglang_refusal(SglangStandIn(), longer), "");
}

TEST(SglangApi, ValuesAfterTheTemperatureAreRefused) {
  const SglangStandIn server(SglangLook{.scaled = true});
  EXPECT_THAT(sglang_refusal(server, kSglangWriter),
              AllOf(HasSubstr("after temperature"), HasSubstr("SGLANG_RETURN_ORIGINAL_LOGPROB=1")));
  EXPECT_EQ(sglang_refusal(server, kSglangScorer), "");  // what it reads has no temperature
}

const std::vector<std::int32_t> kSglangPrompt = {1, 2}, kSglangResponse = {7, 0, 5};

ReadAnswer sglang_read(const StandInServer& server, std::span<const std::int32_t> ids, std::int64_t columns,
                       std::int32_t k = 2) {
  Connection connection = server.connect();
  return make_sglang_api(kSglangIds)
      ->read(connection, {},
             {.prompt_ids = kSglangPrompt,
              .responses = {kSglangResponse},
              .k = k,
              .gather_ids_NG = ids,
              .gather_columns = columns});
}

TEST(SglangApi, ReadsEveryTokenOfAResponse) {
  const SglangStandIn server(SglangLook{.weights = "12"});
  const ReadAnswer read = sglang_read(server, {}, 0);
  EXPECT_EQ(read.answer.id_N, kSglangResponse);
  EXPECT_THAT(read.answer.rows_B, ElementsAre(3));
  EXPECT_THAT(read.answer.values.top_ids_NK, ElementsAre(7, 6, 7, 6, 7, 6));
  EXPECT_FLOAT_EQ(read.answer.values.top_logits_NK[1], static_cast<float>(sglang_logprob(6)));
  EXPECT_THAT(read.answer.values.logsumexp_N, ElementsAre(0, 0, 0));
  EXPECT_EQ(read.answer.values.tokens_read, 5);
  EXPECT_EQ(read.version, 12);
  EXPECT_EQ(read.counts, Counts{});
  const Json sent = server.asked().back().second;
  EXPECT_EQ(sent.at("input_ids"), Json({1, 2, 7, 0, 5}));
  EXPECT_EQ(sent.at("logprob_start_len"), 1);
  EXPECT_FALSE(sent.contains("token_ids_logprob"));
}

TEST(SglangApi, GivenIdsAreAskedForAsOneSet) {
  const SglangStandIn server;
  const std::vector<std::int32_t> ids = {3, 0, 3, -1, 6, 3};
  for (const std::int32_t k : {2, 0}) {
    const ReadAnswer read = sglang_read(server, ids, 2, k);
    EXPECT_EQ(server.asked().back().second.at("token_ids_logprob"), Json({0, 3, 6}));
    EXPECT_EQ(read.counts, (Counts{{"ids_of_request", 3}}));
    EXPECT_THAT(read.answer.values.known_NG, ElementsAre(1, 1, 1, 1, 1, 1));
    EXPECT_FLOAT_EQ(read.answer.values.gathered_NG[1], static_cast<float>(sglang_logprob(0)));
    EXPECT_FLOAT_EQ(read.answer.values.gathered_NG[4], static_cast<float>(sglang_logprob(6)));
    EXPECT_TRUE(std::isnan(read.answer.values.gathered_NG[3]));
    EXPECT_EQ(read.answer.values.top_ids_NK.size(), static_cast<std::size_t>(3 * k));
  }
}

TEST(SglangApi, PadsAloneAreNotAskedFor) {
  const SglangStandIn server;
  const std::vector<std::int32_t> ids = {-1, -1, -1};
  const ReadAnswer read = sglang_read(server, ids, 1, 0);
  EXPECT_THAT(read.answer.values.known_NG, ElementsAre(1, 1, 1));
  EXPECT_EQ(read.answer.values.gathered_NG.size(), 3U);
  EXPECT_EQ(read.counts, Counts{});
}

// Many states with many ids: their union at every position would be more than the limit of bytes.
TEST(SglangApi, GivenIdsAreLookedUpInAWiderTopKPastTheLimitOfBytes) {
  const std::int32_t many_ids = 4096;
  const std::int64_t states = kMostBytesOfAllIds / 36 / many_ids + 1;
  StandInServer server;
  server.on("/generate", [&](const Json& body) {
    EXPECT_FALSE(body.contains("token_ids_logprob"));
    EXPECT_EQ(body.at("top_logprobs_num"), 4 * 16);
    std::string own = "[null,1,null]", tops = "null";
    std::string row;
    for (int id = 0; id < 64; ++id) row += fmt::format("{}[-{},{},null]", id == 0 ? "" : ",", id + 5, id);
    for (std::int64_t n = 0; n < states; ++n) {
      own += ",[-1,1,null]";
      tops += ",[" + row + "]";
    }
    return StandInServer::Said{
        200, fmt::format(R"({{"meta_info":{{"input_token_logprobs":[{}],"input_top_logprobs":[{}]}}}})", own,
                         tops)};
  });
  std::vector<std::int32_t> response(static_cast<std::size_t>(states), 1), ids;
  for (std::int64_t i = 0; i < states * 16; ++i) ids.push_back(static_cast<std::int32_t>(i % many_ids));
  Connection connection = server.connect();
  const ReadAnswer read = make_sglang_api(many_ids)->read(connection, {},
                                                          {.prompt_ids = kSglangPrompt,
                                                           .responses = {response},
                                                           .k = 2,
                                                           .gather_ids_NG = ids,
                                                           .gather_columns = 16});
  EXPECT_EQ(read.counts.at("ids_in_wider_top_k"), states);
  EXPECT_GT(read.counts.at("not_known"), states);
  EXPECT_EQ(read.answer.values.gathered_NG[3], -8);
  EXPECT_EQ(read.answer.values.known_NG[16 * 5], 0);
}

std::pair<WrittenAnswer, Json> sglang_written(std::uint32_t step, std::uint32_t prompt, std::int32_t sample,
                                              const ServerInfo& info = {}) {
  const SglangStandIn server;
  Connection connection = server.connect();
  const Sampling sampling{.n = 4,
                          .decoding = {.temperature = 0.5, .top_p = 0.9},
                          .max_new_tokens = 3,
                          .seed = 11,
                          .step = step,
                          .stop = {"\n\"end"}};
  const std::vector<std::int32_t> samples = {sample};
  WrittenAnswer written = make_sglang_api(kSglangIds)
                              ->write(connection, info,
                                      {.prompt_ids = kSglangPrompt,
                                       .prompt_number = prompt,
                                       .samples = samples,
                                       .sampling = &sampling,
                                       .capture = {.k = 2}});
  return {std::move(written), server.asked().back().second};
}

TEST(SglangApi, WritesAtTheDecodingThatWasAskedFor) {
  const auto [written, body] = sglang_written(0, 0, 2);
  EXPECT_THAT(written.rollout.id_N, ElementsAre(5));
  EXPECT_FLOAT_EQ(written.rollout.logprob_N[0], static_cast<float>(sglang_logprob(5)));
  EXPECT_THAT(written.rollout.top_ids_NK, ElementsAre(7, 6));
  EXPECT_EQ(written.rollout.responses_B.at(0).sample, 2);
  EXPECT_EQ(written.rollout.responses_B.at(0).length, 1);
  EXPECT_EQ(written.counts, Counts{});
  const Json sent = body.at("sampling_params");
  EXPECT_EQ(sent.at("temperature"), 0.5);
  EXPECT_EQ(sent.at("top_p"), 0.9);
  EXPECT_EQ(sent.at("top_k"), -1);  // 0 is refused there
  EXPECT_EQ(sent.at("max_new_tokens"), 3);
  EXPECT_EQ(sent.at("stop"), Json({"\n\"end"}));
}

TEST(SglangApi, SeedsDependOnTheAddressAlone) {
  const auto seed = [](std::uint32_t step, std::uint32_t prompt, std::int32_t sample) {
    return sglang_written(step, prompt, sample)
        .second.at("sampling_params")
        .at("sampling_seed")
        .get<std::int64_t>();
  };
  const std::set<std::int64_t> seeds = {seed(0, 0, 0), seed(1, 0, 0), seed(0, 1, 0), seed(0, 0, 1),
                                        seed(1, 1, 1)};
  EXPECT_EQ(seeds.size(), 5U);
  EXPECT_LT(*seeds.rbegin(), std::int64_t{1} << 31U);
  EXPECT_EQ(seed(1, 2, 3), seed(1, 2, 3));
}

TEST(SglangApi, ResponsesWhoseSeedIsNotReadAreCounted) {
  EXPECT_FALSE(sglang_info(SglangStandIn(SglangLook{.deterministic = false}), kSglangScorer).seeds);
  EXPECT_EQ(sglang_written(0, 0, 0, {.seeds = false}).first.counts, (Counts{{"without_seed", 1}}));
}

TEST(SglangApi, TakesNewWeightsUnderTheirVersion) {
  SglangStandIn server;
  Connection connection = server.connect();
  const auto api = make_sglang_api(kSglangIds);
  api->reload(connection, {}, "/shared/weights-9", 9);
  EXPECT_EQ(server.asked().back().second, Json({{"model_path", "/shared/weights-9"},
                                                {"weight_version", "9"},
                                                {"flush_cache", true},
                                                {"abort_all_requests", false}}));
  server.on("/update_weights_from_disk", R"({"success":false,"message":"no such file"})");
  EXPECT_THAT(error_of([&] { api->reload(connection, {}, "d", 10); }), HasSubstr("no such file"));
  server.on("/update_weights_from_disk", R"({"success":false,"message":"no such file"})", 400);
  EXPECT_THAT(error_of([&] { api->reload(connection, {}, "d", 10); }), HasSubstr("no such file"));
}

// ---- answers ----

std::string sglang_scored(const std::string& own, const std::string& tops) {
  return fmt::format(
      R"({{"text":"","meta_info":{{"weight_version":"7","input_token_logprobs":[[null,1,null]{}],)"
      R"("input_top_logprobs":[null{}]}}}})",
      own, tops);
}
const std::string kOwnThree = ",[-0.5,3,null]", kTopTwo = ",[[-0.5,3,null],[-1.5,4,null]]";

ReadAnswer sglang_scores(const std::string& body, std::int64_t states) {
  ReadAnswer answer;
  read_sglang_scores(body, {.response_length = states, .real_ids = kSglangIds, .k = 2, .top = 2}, answer);
  return answer;
}
std::string sglang_error(const std::string& body, std::int64_t states = 1) {
  try {
    sglang_scores(body, states);
  } catch (const BadAnswer& error) {
    return error.what();
  }
  return "";
}

TEST(SglangAnswers, MinusInfinityIsCountedAndNanMarksItsState) {
  const ReadAnswer read =
      sglang_scores(sglang_scored(kOwnThree + kOwnThree,
                                  ",[[-0.5,3,null],[-3.4028234663852886e38,4,null]],[[-0.5,3,null],"
                                  "[null,4,null]]"),
                    2);
  EXPECT_EQ(read.answer.values.top_logits_NK[1], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(read.answer.values.logsumexp_N[0], 0);
  EXPECT_TRUE(std::isnan(read.answer.values.logsumexp_N[1]));
  EXPECT_EQ(read.counts, (Counts{{"minus_inf", 1}}));
}

TEST(SglangAnswers, FewerPositionsThanTokensAreFewerRows) {
  EXPECT_THAT(sglang_scores(sglang_scored(kOwnThree, kTopTwo), 3).answer.rows_B, ElementsAre(1));
  const ReadAnswer read = sglang_scores(sglang_scored(kOwnThree + kOwnThree, kTopTwo + ",null"), 2);
  EXPECT_THAT(read.answer.rows_B, ElementsAre(1));
  EXPECT_EQ(read.answer.values.top_ids_NK.size(), 2U);
  EXPECT_EQ(read.answer.id_N.size(), 1U);
  EXPECT_THAT(sglang_error(sglang_scored(kOwnThree + kOwnThree, kTopTwo)), HasSubstr("more entries"));
}

TEST(SglangAnswers, WhatIsWrongIsSaid) {
  EXPECT_EQ(sglang_error(sglang_scored(kOwnThree, kTopTwo)), "");
  EXPECT_THAT(sglang_error("{}"), HasSubstr("no meta_info"));
  EXPECT_THAT(sglang_error(R"({"meta_info":{}})"), HasSubstr("no input_token_logprobs"));
  EXPECT_THAT(sglang_error(R"({"meta_info":{"input_token_logprobs":[]}})"),
              HasSubstr("no input_top_logprobs"));
  EXPECT_THAT(sglang_error(R"({"meta_info":{"finish_reason":{"type":"abort"}}})"), HasSubstr("aborted"));
  EXPECT_THAT(sglang_error(sglang_scored(kOwnThree, ",[[-0.5,3,null]]")),
              HasSubstr("1 values are listed; expected 2"));
  EXPECT_THAT(sglang_error(sglang_scored(kOwnThree, ",[[-1,3,null],[-2,3,null]]")),
              HasSubstr("listed twice"));
  EXPECT_THAT(sglang_error(sglang_scored(kOwnThree, ",[[0.5,3,null],[-2,4,null]]")),
              HasSubstr("no log-probability"));
  EXPECT_THAT(sglang_error(sglang_scored(kOwnThree, ",[[-1,-3,null],[-2,4,null]]")),
              HasSubstr("is not an id"));
  EXPECT_THAT(sglang_error(sglang_scored(kOwnThree, ",[[-1,3],[-2,4]]")), HasSubstr("2 parts"));
  const std::string whole = sglang_scored(kOwnThree, kTopTwo);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(sglang_error(whole.substr(0, size)), "") << size;
}

TEST(SglangAnswers, WhatIsWrongWithAResponseIsSaid) {
  const auto error = [](const std::string& ids, const std::string& own, const std::string& tops,
                        const std::string& reason) {
    WrittenAnswer written;
    return error_of([&] {
      read_sglang_response(
          fmt::format(
              R"({{"output_ids":{},"meta_info":{{"finish_reason":{{"type":"{}"}},"output_token_logprobs":{},)"
              R"("output_top_logprobs":{}}}}})",
              ids, reason, own, tops),
          {.real_ids = kSglangIds, .k = 1, .max_new_tokens = 1}, written);
    });
  };
  const std::string own = "[[-0.5,3,null]]", tops = "[[[-0.5,3,null]]]";
  EXPECT_EQ(error("[3]", own, tops, "stop"), "");
  EXPECT_THAT(error("[4]", own, tops, "stop"), HasSubstr("others than those"));
  EXPECT_THAT(error("[3]", own, tops, "abort"), HasSubstr("abort"));
  EXPECT_THAT(error("[3]", own, "[]", "stop"), HasSubstr("the best ids of 0"));
  EXPECT_THAT(error("[3]", own, "[null]", "stop"), HasSubstr("no best ids"));
  EXPECT_THAT(error("[]", "[]", "[]", "stop"), HasSubstr("0 tokens; expected 1 to 1"));
}

}  // namespace
}  // namespace routeopd::engine
