// /v1/completions: the jobs that requests become, and answers as vLLM 0.32 was recorded to give them.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "serve_testing.h"

namespace routeopd::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Equal but for the last digits of numbers that went through a log-partition.
void expect_near(const Json& got, const Json& expected, const std::string& where = "") {
  if (expected.is_number_float() || got.is_number_float()) {
    ASSERT_TRUE(got.is_number() && expected.is_number()) << where << ": " << got.dump();
    EXPECT_NEAR(got.get<double>(), expected.get<double>(), 1e-5) << where;
    return;
  }
  ASSERT_EQ(got.type_name(), std::string(expected.type_name())) << where << ": " << got.dump();
  ASSERT_EQ(got.size(), expected.size()) << where << ": " << got.dump();
  if (expected.is_object()) {
    for (const auto& [key, value] : expected.items()) {
      ASSERT_TRUE(got.contains(key)) << where << "." << key;
      expect_near(got[key], value, where + "." + key);
    }
  } else if (expected.is_array()) {
    for (std::size_t i = 0; i < expected.size(); ++i)
      expect_near(got[i], expected[i], where + "[" + std::to_string(i) + "]");
  } else {
    EXPECT_EQ(got, expected) << where;
  }
}

const std::vector<std::int32_t> kVera = {86, 101, 114, 97, 372, 264};  // "Vera has 6"

std::vector<ScriptedRow> vera_rows() {
  return {{-10.992087364196777F, 324, {{359, -1.889914870262146F}}},
          {-10.107813835144043F, 278, {{284, -1.594891905784607F}}},
          {-10.614027976989746F, 341, {{284, -1.465632438659668F}}},
          {-3.5567879676818848F, 9, {{284, -1.4166346788406372F}}},
          {-1.8732988834381104F, 2, {{476, -1.8297755718231201F}}}};
}

const char* kVeraPromptLogprobs = R"([null,
  {"101":{"logprob":-10.992087364196777,"rank":324,"decoded_token":"e"},
   "359":{"logprob":-1.889914870262146,"rank":1,"decoded_token":" The"}},
  {"114":{"logprob":-10.107813835144043,"rank":278,"decoded_token":"r"},
   "284":{"logprob":-1.594891905784607,"rank":1,"decoded_token":" 26"}},
  {"97":{"logprob":-10.614027976989746,"rank":341,"decoded_token":"a"},
   "284":{"logprob":-1.465632438659668,"rank":1,"decoded_token":" 26"}},
  {"372":{"logprob":-3.5567879676818848,"rank":9,"decoded_token":" has"},
   "284":{"logprob":-1.4166346788406372,"rank":1,"decoded_token":" 26"}},
  {"264":{"logprob":-1.8732988834381104,"rank":2,"decoded_token":" 6"},
   "476":{"logprob":-1.8297755718231201,"rank":1,"decoded_token":" begin"}}])";

TEST(Completions, ATextBecomesAJobWithTheDefaults) {
  TestServer server;
  server.complete({{"prompt", "Vera has 6"}});
  const engine::Job& job = server.queue.job();
  EXPECT_EQ(job.prompt_ids, kVera);
  EXPECT_EQ(job.number, 0U);
  EXPECT_THAT(job.samples, ElementsAre(0));
  EXPECT_EQ(job.sampling.max_new_tokens, 16);
  EXPECT_EQ(job.sampling.decoding.temperature, 1);
  EXPECT_EQ(job.sampling.decoding.top_p, 1);
  EXPECT_EQ(job.sampling.decoding.top_k, 0);
  EXPECT_EQ(job.capture.k, 0);
  EXPECT_EQ(job.prompt_from, 0);
  EXPECT_FALSE(job.tell_tokens);
}

TEST(Completions, TheModelsGenerationConfigGivesDefaultsThatARequestMayOverride) {
  ServiceOptions options = lab_options();
  options.model.defaults.decoding = {.temperature = 0.6, .top_p = 0.95, .top_k = 20};
  TestServer server(std::move(options));
  server.complete({{"prompt", "a"}, {"top_k", 0}});
  EXPECT_EQ(server.queue.job().sampling.decoding.temperature, 0.6);
  EXPECT_EQ(server.queue.job().sampling.decoding.top_p, 0.95);
  EXPECT_EQ(server.queue.job().sampling.decoding.top_k, 0);
}

TEST(Completions, RandomNumbersAreAddressedBySeedPlaceAndSample) {
  TestServer server;
  server.complete(
      {{"prompt", {{33, 34}, {35}}}, {"n", 3}, {"seed", 7}, {"stop", {"x"}}, {"ignore_eos", true}});
  const std::vector<engine::Job>& jobs = server.queue.requests.back().jobs;
  ASSERT_EQ(jobs.size(), 2U);
  for (std::size_t p = 0; p < 2; ++p) {
    EXPECT_EQ(jobs[p].number, p);
    EXPECT_EQ(jobs[p].sampling.seed, 7U);
    EXPECT_EQ(jobs[p].sampling.step, 0U);
    EXPECT_THAT(jobs[p].samples, ElementsAre(0, 1, 2));
    EXPECT_THAT(jobs[p].sampling.stop, ElementsAre("x"));
    EXPECT_TRUE(jobs[p].sampling.ignore_eos);
  }
  EXPECT_THAT(jobs[1].prompt_ids, ElementsAre(35));
  // Without a seed each request has its own.
  server.complete({{"prompt", "a"}});
  const std::uint64_t first = server.queue.job().sampling.seed;
  server.complete({{"prompt", "a"}});
  EXPECT_NE(server.queue.job().sampling.seed, first);
}

TEST(Completions, ResponsesAreCutToThePositionsThatAreLeft) {
  TestServer server;
  server.complete({{"prompt", std::vector<int>(200, 33)}, {"max_tokens", 100}});
  EXPECT_EQ(server.queue.job().sampling.max_new_tokens, 56);
}

TEST(Completions, APlainAnswerIsVllms) {
  TestServer server;
  const auto reply =
      server.ask("POST", "/v1/completions", R"({"prompt": [33, 34, 35, 36, 40, 41], "max_tokens": 4,
      "temperature": 0, "return_token_ids": true, "model": "m"})",
                 {{"X-Request-Id", "mine"}});
  server.finish({written({{.ids = {284, 284, 284, 284}}})});
  ASSERT_TRUE(reply->wait());
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->type, "application/json");
  EXPECT_EQ(reply->header("x-weights-version"), "3");
  EXPECT_EQ(reply->header("x-request-id"), "mine");
  Json answer = reply->json();
  EXPECT_GT(answer["created"].get<std::int64_t>(), 1'700'000'000);
  answer.erase("created");
  EXPECT_EQ(answer, Json::parse(R"({"id":"cmpl-mine","object":"text_completion","model":"m",
      "choices":[{"index":0,"text":" 26 26 26 26","logprobs":null,"finish_reason":"length","stop_reason":null,
        "token_ids":[284,284,284,284],"prompt_logprobs":null,"prompt_token_ids":[33,34,35,36,40,41]}],
      "service_tier":null,"system_fingerprint":"routeopd-0.1.0-w3",
      "usage":{"prompt_tokens":6,"total_tokens":10,"completion_tokens":4,"prompt_tokens_details":null,
        "completion_tokens_details":null}})"));
}

TEST(Completions, EchoWithLogprobsAsHarnessesAsk) {
  TestServer server;
  const auto reply = server.complete(
      {{"prompt", "Vera has 6"}, {"max_tokens", 1}, {"temperature", 0}, {"echo", true}, {"logprobs", 1}});
  const engine::Job& job = server.queue.job();
  EXPECT_EQ(job.prompt_from, 1);
  EXPECT_EQ(job.k, 1);
  EXPECT_EQ(job.capture.k, 1);
  EXPECT_EQ(job.gather_columns, 1);
  EXPECT_THAT(job.gather_ids_RG, ElementsAre(101, 114, 97, 372, 264));
  EXPECT_TRUE(job.ranks);
  engine::JobResult result =
      written({{.ids = {264}, .logprobs = {-0.06F}, .top = {{{264, -0.05664212256669998F}}}}});
  add_prompt_rows(result, vera_rows());
  server.finish({result});
  ASSERT_TRUE(reply->wait());
  const Json answer = reply->json();
  expect_near(answer["choices"][0]["logprobs"], Json::parse(R"({"text_offset":[0,1,2,3,4,8,10],
      "token_logprobs":[null,-10.992087364196777,-10.107813835144043,-10.614027976989746,-3.5567879676818848,
        -1.8732988834381104,-0.05664212256669998],
      "tokens":["V","e","r","a"," has"," 6"," 6"],
      "top_logprobs":[null,{"e":-10.992087364196777," The":-1.889914870262146},
        {"r":-10.107813835144043," 26":-1.594891905784607},{"a":-10.614027976989746," 26":-1.465632438659668},
        {" has":-3.5567879676818848," 26":-1.4166346788406372},
        {" 6":-1.8732988834381104," begin":-1.8297755718231201},{" 6":-0.05664212256669998}]})"));
  EXPECT_EQ(answer["choices"][0]["text"], "Vera has 6 6");
  expect_near(answer["choices"][0]["prompt_logprobs"], Json::parse(kVeraPromptLogprobs));
  // The most likely token has the same number in both places, to the last bit: harnesses compare them.
  EXPECT_EQ(answer["choices"][0]["logprobs"]["token_logprobs"][6],
            answer["choices"][0]["logprobs"]["top_logprobs"][6][" 6"]);
}

TEST(Completions, EchoWithoutNewTokensScoresAlone) {
  TestServer server;
  const auto reply =
      server.complete({{"prompt", "Vera has 6"}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 1}});
  EXPECT_TRUE(server.queue.job().samples.empty());
  engine::JobResult result;
  add_prompt_rows(result, vera_rows());
  server.finish({result});
  ASSERT_TRUE(reply->wait());
  const Json choice = reply->json()["choices"][0];
  EXPECT_EQ(choice["text"], "Vera has 6");
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["logprobs"]["tokens"].size(), 6U);
  EXPECT_EQ(reply->json()["usage"]["completion_tokens"], 0);
}

TEST(Completions, NothingToComputeIsAnsweredWithoutTheEngine) {
  TestServer server;
  const auto reply =
      server.complete({{"prompt", {{33}, {34}}}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 1}});
  EXPECT_TRUE(server.queue.requests.empty());
  ASSERT_TRUE(reply->wait());
  EXPECT_EQ(reply->json()["choices"][1]["text"], "\"");
  EXPECT_EQ(reply->json()["choices"][1]["prompt_logprobs"], Json::array({nullptr}));
  EXPECT_EQ(reply->header("x-weights-version"), "3");
}

TEST(Completions, PromptLogprobsOfZeroListTheTokenAlone) {
  TestServer server;
  const auto reply = server.complete({{"prompt", "Vera has 6"}, {"max_tokens", 1}, {"prompt_logprobs", 0}});
  engine::JobResult result = written({{.ids = {264}}});
  add_prompt_rows(result, vera_rows());
  server.finish({result});
  ASSERT_TRUE(reply->wait());
  const Json values = reply->json()["choices"][0]["prompt_logprobs"];
  EXPECT_EQ(values.size(), 6U);
  EXPECT_EQ(values[1].size(), 1U);
  EXPECT_EQ(values[1]["101"]["rank"], 324);
  EXPECT_TRUE(reply->json()["choices"][0]["logprobs"].is_null());
}

TEST(Completions, TheTokenStandsFirstAndBesideTheMostLikely) {
  TestServer server;
  const auto reply = server.complete({{"prompt", "a"}, {"max_tokens", 2}, {"logprobs", 2}});
  server.finish({written({{.ids = {46, 270},
                           .logprobs = {-4, -2},
                           .top = {{{262, -0.5F}, {263, -1}}, {{262, -1}, {270, -2}}}}})});
  ASSERT_TRUE(reply->wait());
  EXPECT_THAT(reply->text,
              HasSubstr(R"("top_logprobs":[{".":-4.0," 4":-0.5," 5":-1.0},{" 12":-2.0," 4":-1.0}])"));
}

TEST(Completions, StopStringsAndEndsOfSequence) {
  TestServer server;
  const auto reply =
      server.complete({{"prompt", "a"}, {"stop", {"zz", "re 12"}}, {"n", 3}, {"return_token_ids", true}});
  server.finish({written({{.ids = {467, 468, 377, 270}, .finish = Finish::kStop},
                          {.ids = {467, 492}, .finish = Finish::kStop},
                          {.ids = {467, 468, 377}}})});
  ASSERT_TRUE(reply->wait());
  const Json choices = reply->json()["choices"];
  EXPECT_EQ(choices[0]["text"], " First there a");
  EXPECT_EQ(choices[0]["finish_reason"], "stop");
  EXPECT_EQ(choices[0]["stop_reason"], "re 12");
  EXPECT_EQ(choices[0]["token_ids"], (Json{467, 468, 377, 270}));
  EXPECT_EQ(choices[1]["text"], " First");
  EXPECT_EQ(choices[1]["finish_reason"], "stop");
  EXPECT_TRUE(choices[1]["stop_reason"].is_null());
  EXPECT_EQ(choices[1]["token_ids"], (Json{467, 492}));
  EXPECT_EQ(choices[2]["text"], " First there are");  // held back and released at the end
  EXPECT_EQ(choices[2]["finish_reason"], "length");
  EXPECT_EQ(reply->json()["usage"]["completion_tokens"], 9);
}

TEST(Completions, ChoicesCountPromptsTimesSamples) {
  TestServer server;
  const auto reply = server.complete({{"prompt", {"Vera", "6"}}, {"n", 2}, {"max_tokens", 1}});
  server.finish({written({{.ids = {262}}, {.ids = {263}}}), written({{.ids = {264}}, {.ids = {270}}})});
  ASSERT_TRUE(reply->wait());
  std::string texts;
  const Json answer = reply->json();
  for (const Json& choice : answer["choices"])
    texts += std::to_string(choice["index"].get<int>()) + choice["text"].get<std::string>() + ";";
  EXPECT_EQ(texts, "0 4;1 5;2 6;3 12;");
}

TEST(Completions, WrongPromptsAreRefused) {
  TestServer server;
  const std::vector<std::pair<Json, std::string>> cases = {
      {nullptr, "expected a text"},
      {"", "at least one token"},
      {Json::array(), "expected a text"},
      {Json::array({Json::array()}), "at least one token"},
      {5, "expected a text"},
      {{"a", Json::array({1})}, "expected a text"},
      {{1, 99999}, "Token id 99999 is out of vocabulary"},
      {{1, -2}, "Token id -2 is out of vocabulary"},
      {{1, 18446744073709551615ULL}, "Token id 18446744073709551615 is out of vocabulary"},
      {{1, 1.5}, "expected ids"},
      {std::vector<int>(300, 33), "at most 256 tokens"},
      {std::vector<int>(256, 33), "leave no room"},
      {std::string(2'000'000, 'a'), "cannot be 256 tokens"}};
  for (const auto& [prompt, expected] : cases) {
    const auto reply = server.complete({{"prompt", prompt}});
    EXPECT_EQ(reply->status, 400) << expected;
    const Json error = reply->json()["error"];
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(expected));
    EXPECT_EQ(error["type"], "BadRequestError");
    EXPECT_EQ(error["code"], 400);
  }
  EXPECT_TRUE(server.queue.requests.empty());
}

TEST(Completions, LimitsAreRefusedWithTheirParameter) {
  ServiceOptions options = lab_options();
  options.limits.most_n = 4;
  options.limits.most_prompts = 3;
  options.limits.most_responses = 6;
  options.limits.most_new_tokens = 50;
  options.limits.most_logprobs = 8;
  options.limits.most_values = 100;
  TestServer server(std::move(options));
  const std::vector<std::pair<std::string, Json>> cases = {
      {"n", {{"prompt", "a"}, {"n", 5}}},
      {"prompt", {{"prompt", {"a", "a", "a", "a"}}}},
      {"n", {{"prompt", {"a", "a"}}, {"n", 4}}},
      {"max_tokens", {{"prompt", "a"}, {"max_tokens", 51}}},
      {"max_tokens", {{"prompt", "a"}, {"max_tokens", 0}}},
      {"logprobs", {{"prompt", "a"}, {"logprobs", 9}}},
      {"logprobs", {{"prompt", "a"}, {"logprobs", -1}}},
      {"prompt_logprobs", {{"prompt", "a"}, {"prompt_logprobs", 9}}},
      {"logprobs", {{"prompt", "a"}, {"logprobs", 4}, {"max_tokens", 21}}},
      // Five values of the prompt, each of the token and seven more, with every choice; and twice with echo.
      {"logprobs", {{"prompt", "Vera has 6"}, {"prompt_logprobs", 7}, {"n", 3}, {"max_tokens", 1}}},
      {"logprobs", {{"prompt", "Vera has 6"}, {"logprobs", 3}, {"echo", true}, {"n", 3}, {"max_tokens", 1}}}};
  for (const auto& [param, body] : cases) {
    const auto reply = server.complete(body);
    EXPECT_EQ(reply->status, 400) << body;
    EXPECT_EQ(reply->json()["error"]["param"], param) << body;
  }
  EXPECT_TRUE(server.queue.requests.empty());
  server.complete({{"prompt", "a"}, {"logprobs", 4}, {"max_tokens", 20}});
  server.complete({{"prompt", "Vera has 6"}, {"prompt_logprobs", 7}, {"n", 2}, {"max_tokens", 1}});
  server.complete({{"prompt", "Vera has 6"}, {"logprobs", 3}, {"echo", true}, {"n", 2}, {"max_tokens", 1}});
  EXPECT_EQ(server.queue.requests.size(), 3U);
}

TEST(Completions, WithoutATokenizerIdsGoInAndOut) {
  ServiceOptions options = lab_options();
  options.model.tokenizer = nullptr;
  options.model.templates = nullptr;
  TestServer server(std::move(options));
  EXPECT_EQ(server.complete({{"prompt", "a"}})->json()["error"]["param"], "prompt");
  EXPECT_EQ(server.complete({{"prompt", {1}}, {"stop", "a"}})->json()["error"]["param"], "stop");
  const auto reply = server.complete({{"prompt", {1}}, {"logprobs", 0}});
  server.finish({written({{.ids = {262}}})});
  ASSERT_TRUE(reply->wait());
  const Json choice = reply->json()["choices"][0];
  EXPECT_EQ(choice["text"], "");
  EXPECT_EQ(choice["token_ids"], Json::array({262}));
  EXPECT_EQ(choice["logprobs"]["tokens"], Json::array({"token_id:262"}));
}

}  // namespace
}  // namespace routeopd::serve
