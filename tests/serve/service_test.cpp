// Routes, keys, errors, chat, tokenize and metrics.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <fstream>
#include <future>
#include <random>

#include "routeopd/serve/served_model.h"
#include "serve_testing.h"
#include "testing_errors.h"
#include "testing_files.h"

namespace routeopd::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const Json kHi = {{{"role", "user"}, {"content", "hi"}}};

TEST(Service, AnswersForModelsHealthAndVersion) {
  TestServer server;
  const Json models = server.ask("GET", "/v1/models")->json();
  EXPECT_EQ(models["object"], "list");
  EXPECT_EQ(models["data"][0]["id"], "m");
  EXPECT_EQ(models["data"][0]["max_model_len"], 256);
  const auto health = server.ask("GET", "/health");
  EXPECT_EQ(health->status, 200);
  EXPECT_EQ(health->text, "");
  EXPECT_EQ(server.ask("GET", "/version")->json()["version"], "0.1.0");
  EXPECT_EQ(server.ask("GET", "/version")->header("x-weights-version"), "3");
}

TEST(Service, UnknownPathsAndMethodsAreErrorsInOpenAisShape) {
  TestServer server;
  const auto missing = server.ask("GET", "/v1/nothing");
  EXPECT_EQ(missing->status, 404);
  EXPECT_EQ(missing->json()["error"]["type"], "NotFoundError");
  EXPECT_TRUE(missing->json()["error"]["param"].is_null());
  const auto wrong = server.ask("GET", "/v1/completions");
  EXPECT_EQ(wrong->status, 405);
  EXPECT_EQ(wrong->header("Allow"), "POST");
  EXPECT_EQ(server.ask("POST", "/v1/completions", "{")->status, 400);
  const auto other = server.complete({{"model", "x"}, {"prompt", "a"}});
  EXPECT_EQ(other->status, 404);
  EXPECT_EQ(other->json()["error"]["message"], "The model `x` does not exist. Valid aliases: m.");
  EXPECT_EQ(other->json()["error"]["param"], "model");
}

TEST(Service, TheKeyGuardsV1Alone) {
  ServiceOptions options = lab_options();
  options.key = "secret";
  TestServer server(std::move(options));
  for (const char* path : {"/health", "/version", "/metrics"})
    EXPECT_EQ(server.ask("GET", path)->status, 200) << path;
  const auto with = [&](const std::string& value) {
    return server.ask("GET", "/v1/models", "", {{"Authorization", value}})->status;
  };
  EXPECT_EQ(server.ask("GET", "/v1/models")->status, 401);
  EXPECT_EQ(server.ask("GET", "/v1/nothing")->status, 401);
  for (const char* value : {"", "Bearer", "Bearer ", "Bearer secre", "Bearer secret2", "Bearer secretsecret",
                            "Basic secret", "secret", "Bearer  secret"})
    EXPECT_EQ(with(value), 401) << value;
  EXPECT_EQ(with("Bearer secret"), 200);
  EXPECT_EQ(with("bearer secret"), 200);
  // Without a key of its own a server takes any.
  TestServer open;
  EXPECT_EQ(open.ask("GET", "/v1/models", "", {{"Authorization", "Bearer "}})->status, 200);
}

TEST(Service, AFullQueueAsksToComeAgain) {
  TestServer server;
  server.queue.full = true;
  const auto reply = server.complete({{"prompt", "a"}});
  EXPECT_EQ(reply->status, 429);
  EXPECT_EQ(reply->header("Retry-After"), "1");
  EXPECT_EQ(reply->json()["error"]["type"], "RateLimitError");
  server.queue.full = false;
  server.queue.refusal = "prompt 0: does not fit";
  EXPECT_EQ(server.complete({{"prompt", "a"}})->status, 400);
  EXPECT_EQ(reply->answers, 1);
}

TEST(Service, EndingsBecomeStatuses) {
  TestServer server;
  const std::vector<std::pair<engine::Ending, int>> cases = {{engine::Ending::kNonFinite, 422},
                                                             {engine::Ending::kExpired, 504},
                                                             {engine::Ending::kFailed, 500},
                                                             {engine::Ending::kStopped, 503}};
  for (const auto& [ending, status] : cases) {
    const auto reply = server.complete({{"prompt", "a"}});
    server.queue.listener().ended(
        {.ending = ending, .message = "why", .weights_version = 4, .results_J = {}});
    ASSERT_TRUE(reply->wait());
    EXPECT_EQ(reply->status, status);
    EXPECT_EQ(reply->json()["error"]["message"], "why");
    EXPECT_EQ(reply->header("x-weights-version"), "4");
  }
}

TEST(Service, WhileItStopsItSendsNobodyBackToItself) {
  TestServer server;
  server.queue.stopped = true;
  const auto reply = server.complete({{"prompt", "a"}});
  EXPECT_EQ(reply->status, 503);
  EXPECT_EQ(reply->header("Retry-After"), "");
}

TEST(Service, AClientThatGoesAwayCancelsItsRequestAndRequestsHaveADeadline) {
  ServiceOptions options = lab_options();
  options.limits.seconds = 5;
  TestServer server(std::move(options));
  server.complete({{"prompt", "a"}});
  const auto reply = server.complete({{"prompt", "a"}});
  const auto left = server.queue.requests.back().deadline - std::chrono::steady_clock::now();
  EXPECT_GT(left, std::chrono::seconds(3));
  EXPECT_LE(left, std::chrono::seconds(5));
  EXPECT_TRUE(server.queue.cancelled.empty());
  reply->gone();
  EXPECT_THAT(server.queue.cancelled, ElementsAre(2U));
}

TEST(Service, RoutesCanBeAddedAndTheirFaultsAreAnswered) {
  std::string log;
  ServiceOptions options = lab_options();
  options.log = [&](std::string_view line) { log += std::string(line) + "\n"; };
  options.faults = options.log;
  TestServer server(std::move(options));
  server.service.add({"POST", "/v1/score", [](Service& service, Call call) {
                        if (call.request.body == "fault") throw std::runtime_error("broken");
                        service.send(call, 200, "application/octet-stream", call.request.body + "!");
                      }});
  EXPECT_EQ(server.ask("POST", "/v1/score", "x")->text, "x!");
  const auto fault = server.ask("POST", "/v1/score", "fault");
  EXPECT_EQ(fault->status, 500);
  EXPECT_THAT(fault->text, Not(HasSubstr("broken")));
  EXPECT_THAT(log, HasSubstr("fault: broken"));
}

TEST(Service, TheLogHasALinePerRequestAndNoTextOfPrompts) {
  std::string log;
  ServiceOptions options = lab_options();
  options.log = [&](std::string_view line) { log += std::string(line) + "\n"; };
  {
    TestServer server(options);
    const auto reply = server.complete({{"prompt", "Vera has 6"}});
    server.finish({written({{.ids = {262, 263}}})});
    ASSERT_TRUE(reply->wait());
  }
  EXPECT_THAT(log, HasSubstr("\"POST /v1/completions\" 200 "));
  EXPECT_THAT(log, HasSubstr("6 prompt tokens, 2 written"));
  EXPECT_THAT(log, HasSubstr("127.0.0.1:5"));
  EXPECT_THAT(log, Not(HasSubstr("Vera")));
  options.log_prompts = true;
  TestServer server(options);
  server.complete({{"prompt", "Vera has 6"}});
  EXPECT_THAT(log, HasSubstr("prompt 0: \"Vera has 6\""));
}

TEST(Chat, MessagesGoThroughTheTemplate) {
  TestServer server;
  const auto reply = server.ask("POST", "/v1/chat/completions",
                                R"({"messages": [{"role": "system", "content": "s"}, {"role": "user",
      "content": [{"type": "text", "text": "hello"}, {"type": "text", "text": "there"}]}],
      "return_token_ids": true, "return_prompt_text": true, "chat_template_kwargs": {"mood": "good"},
      "tools": [{"type": "function", "function": {"name": "f"}}]})");
  const std::string text =
      "system: s\nuser: hello\nthere\ntools: [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]\n"
      "mood: good\nassistant:";
  EXPECT_EQ(lab_tokenizer().decode(server.queue.job().prompt_ids), text);
  EXPECT_EQ(server.queue.job().sampling.max_new_tokens, 256 - std::ssize(server.queue.job().prompt_ids));
  const std::vector<std::int32_t> ids = server.queue.job().prompt_ids;
  server.finish({written({{.ids = {467, 492}, .finish = Finish::kStop}})});
  ASSERT_TRUE(reply->wait());
  Json answer = reply->json();
  answer.erase("created");
  answer.erase("id");
  EXPECT_EQ(answer["prompt_text"], text);
  EXPECT_EQ(answer["prompt_token_ids"], Json(ids));
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["choices"], Json::parse(R"([{"index":0,"message":{"role":"assistant","content":" First",
      "refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null},"logprobs":null,
      "finish_reason":"stop","stop_reason":null,"token_ids":[467,492]}])"));
}

TEST(Chat, ValuesOfTheResponseAndOfThePrompt) {
  TestServer server;
  const auto reply = server.chat({{"messages", kHi},
                                  {"logprobs", true},
                                  {"top_logprobs", 2},
                                  {"prompt_logprobs", 1},
                                  {"max_tokens", 1}});
  const std::size_t rows = server.queue.job().prompt_ids.size() - 1;
  engine::JobResult result = written({{.ids = {46}, .logprobs = {-4}, .top = {{{262, -0.5F}, {263, -1}}}}});
  add_prompt_rows(result, std::vector<ScriptedRow>(rows, {-3, 7, {{262, -0.5F}}}));
  server.finish({result});
  ASSERT_TRUE(reply->wait());
  const Json answer = reply->json();
  EXPECT_EQ(answer["choices"][0]["logprobs"],
            Json::parse(R"({"content":[{"token":".","logprob":-4.0,"bytes":[46],
      "top_logprobs":[{"token":".","logprob":-4.0,"bytes":[46]},
        {"token":" 4","logprob":-0.5,"bytes":[32,52]}]}]})"));
  ASSERT_EQ(answer["prompt_logprobs"].size(), rows + 1);
  EXPECT_TRUE(answer["prompt_logprobs"][0].is_null());
  EXPECT_EQ(answer["prompt_logprobs"][1]["262"],
            (Json{{"logprob", -0.5}, {"rank", 1}, {"decoded_token", " 4"}}));
}

TEST(Chat, AMessageCanBeContinued) {
  TestServer server;
  const auto reply = server.chat(
      {{"messages", {{{"role", "user"}, {"content", "hi"}}, {{"role", "assistant"}, {"content", "We"}}}},
       {"continue_final_message", true}});
  EXPECT_EQ(lab_tokenizer().decode(server.queue.job().prompt_ids), "user: hi\nassistant: We");
  server.finish({written({{.ids = {467}}})});
  ASSERT_TRUE(reply->wait());
  EXPECT_EQ(reply->json()["choices"][0]["message"]["role"], "assistant");
}

TEST(Chat, TemplatesSeeTextAndTheArgumentsOfToolCallsAsValues) {
  ServiceOptions options = lab_options();
  const text::ChatTemplates templates(
      {{"default",
        "{% for m in messages %}[{{ m.content }}]{% for c in m.tool_calls or [] %}"
        "{{ c.function.arguments.x }}{% endfor %}{% endfor %}"}},
      OrderedJson::object());
  options.model.templates = &templates;
  TestServer server(std::move(options));
  const auto call = [](const char* arguments) {
    return Json{{"role", "assistant"},
                {"tool_calls", Json::array({{{"function", {{"name", "f"}, {"arguments", arguments}}}}})}};
  };
  server.chat({{"messages", {{{"role", "user"}, {"content", nullptr}}, call("{\"x\": 12}")}}});
  EXPECT_EQ(lab_tokenizer().decode(server.queue.job().prompt_ids), "[][]12");
  const auto wrong = server.chat({{"messages", Json::array({call("{x")})}});
  EXPECT_EQ(wrong->status, 400);
  EXPECT_EQ(wrong->json()["error"]["param"], "messages");
}

TEST(Chat, WrongMessagesAreRefused) {
  TestServer server;
  const std::vector<Json> cases = {nullptr,
                                   Json::array(),
                                   "hi",
                                   Json::array({{{"content", "hi"}}}),
                                   Json::array({{{"role", 3}, {"content", "hi"}}}),
                                   Json::array({{{"role", "user"}, {"content", 5}}}),
                                   Json::array({"hi"}),
                                   Json::array({{{"role", "user"}, {"content", {{{"type", "image_url"}}}}}})};
  for (const Json& messages : cases) {
    const auto reply = server.chat({{"messages", messages}});
    EXPECT_EQ(reply->status, 400) << messages;
    EXPECT_EQ(reply->json()["error"]["param"], "messages") << messages;
  }
  EXPECT_EQ(server.chat({{"messages", kHi}, {"tools", "f"}})->json()["error"]["param"], "tools");
  EXPECT_EQ(server.chat({{"messages", kHi}, {"chat_template", "{{ x }}"}})->status, 400);
  EXPECT_TRUE(server.queue.requests.empty());
  ServiceOptions options = lab_options();
  options.model.templates = nullptr;
  TestServer plain(std::move(options));
  EXPECT_THAT(plain.chat({{"messages", kHi}})->text, HasSubstr("no chat template"));
}

// Bodies with bytes taken away, put in and changed: each is answered once, or handed to the engine.
TEST(Service, DamagedBodiesAreAnsweredOrServed) {
  TestServer server;
  const std::vector<std::pair<std::string, std::string>> requests = {
      {"/v1/completions",
       R"({"prompt":[[33,34],[35]],"n":2,"stop":["x"],"logprobs":1,"echo":true,"seed":3,"max_tokens":4})"},
      {"/v1/completions", R"({"prompt":"Vera","stream":true,"stream_options":{"include_usage":true}})"},
      {"/v1/chat/completions",
       R"({"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"tools":[{"a":1}]})"},
      {"/tokenize", R"({"prompt":"Vera","return_token_strs":true})"},
      {"/detokenize", R"({"tokens":[33,34]})"}};
  const std::string bytes = "{}[]\",:0123456789-.eEtrufalsn\\\xff\x01 ";
  std::mt19937 random(5);
  std::size_t refused = 0, served = 0;
  for (int round = 0; round < 4000; ++round) {
    auto [path, body] = requests[random() % requests.size()];
    for (std::size_t change = 0; change < 1 + random() % 3; ++change) {
      const std::size_t at = random() % body.size();
      const char byte = bytes[random() % bytes.size()];
      switch (random() % 3) {
        case 0:
          body.erase(at, 1 + random() % 8);
          break;
        case 1:
          body.insert(at, 1, byte);
          break;
        default:
          body[at] = byte;
      }
      if (body.empty()) body = "{";
    }
    const std::size_t before = server.queue.requests.size();
    const auto reply = server.ask("POST", path, body);
    const bool submitted = server.queue.requests.size() > before;
    EXPECT_EQ(reply->answers, submitted ? 0 : 1) << body;
    if (!submitted) {
      EXPECT_TRUE(reply->status == 200 || reply->status == 400 || reply->status == 404) << body;
      EXPECT_TRUE(Json::accept(reply->text)) << body;
    }
    ++(submitted || reply->status == 200 ? served : refused);
  }
  EXPECT_GT(refused, 1000U);
  EXPECT_GT(served, 100U);
}

TEST(Tokenize, ThereAndBack) {
  TestServer server;
  const auto ask = [&](const std::string& path, const Json& body) {
    return server.ask("POST", path, body.dump());
  };
  EXPECT_EQ(
      ask("/tokenize", {{"model", "m"}, {"prompt", "Vera has 6"}})->json(),
      Json::parse(R"({"count":6,"max_model_len":256,"tokens":[86,101,114,97,372,264],"token_strs":null})"));
  EXPECT_EQ(ask("/tokenize", {{"prompt", "Vera has 6"}, {"return_token_strs", true}})->json()["token_strs"],
            Json::parse(R"(["V","e","r","a","Ġhas","Ġ6"])"));
  EXPECT_EQ(ask("/tokenize", {{"prompt", std::string(1000, 'z')}})->json()["count"],
            1000);  // beyond the positions
  const Json chat = ask("/tokenize", {{"messages", kHi}})->json();
  EXPECT_EQ(lab_tokenizer().decode(chat["tokens"].get<std::vector<std::int32_t>>()), "user: hi\nassistant:");
  EXPECT_EQ(ask("/tokenize", {{"model", "x"}, {"prompt", "a"}})->status, 404);
  EXPECT_EQ(ask("/tokenize", Json::object())->status, 400);
  EXPECT_EQ(ask("/tokenize", {{"prompt", "a"}, {"add_special", true}})->json()["error"]["param"],
            "add_special");
  EXPECT_EQ(ask("/detokenize", {{"tokens", {33, 34, 35}}})->json(), (Json{{"prompt", "!\"#"}}));
  EXPECT_EQ(ask("/detokenize", {{"tokens", Json::array()}})->json(), (Json{{"prompt", ""}}));
  for (const Json& wrong : {Json{33, 99999}, Json::array({-1}), Json("a")})
    EXPECT_EQ(ask("/detokenize", {{"tokens", wrong}})->json()["error"]["param"], "tokens") << wrong;
}

TEST(ServeMetrics, CountRequestsTokensAndTimes) {
  TestServer server;
  server.queue.stats.blocks_total = 77;
  const auto reply = server.complete({{"prompt", "Vera has 6"}, {"n", 2}});
  server.finish({written({{.ids = {262, 492}, .finish = Finish::kStop}, {.ids = {262}}})});
  ASSERT_TRUE(reply->wait());
  server.ask("GET", "/no/such/path");
  // The worker counts after it has sent: wait for it.
  std::promise<void> counted;
  server.service.worker().post([&] { counted.set_value(); });
  counted.get_future().wait();
  const auto metrics = server.ask("GET", "/metrics");
  EXPECT_THAT(metrics->type, HasSubstr("text/plain; version=0.0.4"));
  for (const char* line :
       {"routeopd_requests_total{path=\"/v1/completions\",status=\"200\"} 1\n",
        "routeopd_requests_total{path=\"other\",status=\"404\"} 1\n", "routeopd_prompt_tokens_total 6\n",
        "routeopd_generation_tokens_total 3\n", "routeopd_responses_stopped_total 1\n",
        "routeopd_responses_at_length_total 1\n", "routeopd_kv_blocks 77\n", "routeopd_weights_version 3\n",
        "# TYPE routeopd_request_seconds histogram\n", "routeopd_request_seconds_count 2\n",
        "routeopd_request_seconds_bucket{le=\"+Inf\"} 2\n",
        "routeopd_request_response_tokens_bucket{le=\"1\"} 1\n",
        "routeopd_request_response_tokens_bucket{le=\"2\"} 2\n", "routeopd_request_response_tokens_sum 3\n",
        "routeopd_request_waiting_seconds_count 1\n"})
    EXPECT_THAT(metrics->text, HasSubstr(line));
}

TEST(GenerationDefaults, AreReadFromTheFileAndWhatIsNotSupportedIsNamed) {
  const TemporaryDirectory directory;
  EXPECT_EQ(read_generation_defaults(directory.path()).decoding.temperature, 1);
  std::ofstream(directory.path() / "generation_config.json")
      << R"({"temperature": 0.7, "top_p": 0.8, "top_k": 20,
             "repetition_penalty": 1.05, "max_new_tokens": 99})";
  const GenerationDefaults defaults = read_generation_defaults(directory.path());
  EXPECT_EQ(defaults.decoding.temperature, 0.7);
  EXPECT_EQ(defaults.decoding.top_p, 0.8);
  EXPECT_EQ(defaults.decoding.top_k, 20);
  EXPECT_EQ(defaults.max_new_tokens, 99);
  EXPECT_THAT(defaults.ignored, ElementsAre("repetition_penalty"));
  std::ofstream(directory.path() / "generation_config.json") << R"({"top_p": 3})";
  EXPECT_THAT(error_of([&] { read_generation_defaults(directory.path()); }), HasSubstr("top_p: expected"));
}

}  // namespace
}  // namespace routeopd::serve
