// Answers in pieces: one event per token, as vLLM 0.32 was recorded to send them.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "serve_testing.h"

namespace routeopd::serve {
namespace {

using ::testing::HasSubstr;

engine::WrittenToken token_of(std::int32_t id, bool ended = false, Finish finish = Finish::kLength) {
  engine::WrittenToken token;
  token.id = id;
  token.logprob = -1;
  token.ended = ended;
  token.finish = finish;
  return token;
}

engine::Outcome done() {
  engine::Outcome outcome;
  outcome.weights_version = 3;
  return outcome;
}

TEST(Stream, ACompletionInPieces) {
  TestServer server;
  const auto reply = server.ask("POST", "/v1/completions", R"({"prompt": "a", "stream": true, "max_tokens": 2,
      "return_token_ids": true, "stream_options": {"include_usage": true}})",
                                {{"x-request-id", "r"}});
  EXPECT_TRUE(server.queue.job().tell_tokens);
  EXPECT_EQ(reply->answers, 0);
  engine::Listener& listener = server.queue.listener();
  listener.begun(5);
  EXPECT_EQ(reply->header("x-weights-version"), "5");  // with the header, before any token
  EXPECT_EQ(reply->type, "text/event-stream; charset=utf-8");
  listener.token(token_of(467));
  EXPECT_THAT(reply->text, HasSubstr(" First"));  // at once
  listener.token(token_of(468, true));
  listener.ended(done());
  EXPECT_TRUE(reply->ended);
  std::vector<Json> events = reply->events();
  ASSERT_EQ(events.size(), 3U);
  for (Json& event : events) event.erase("created");
  EXPECT_EQ(events[0],
            Json::parse(R"({"id":"cmpl-r","object":"text_completion","model":"m","choices":[{"index":0,
      "text":" First","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":[97],
      "token_ids":[467]}]})"));
  EXPECT_EQ(events[1],
            Json::parse(R"({"id":"cmpl-r","object":"text_completion","model":"m","choices":[{"index":0,
      "text":" there","logprobs":null,"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,
      "token_ids":[468]}]})"));
  EXPECT_EQ(events[2], Json::parse(R"({"id":"cmpl-r","object":"text_completion","model":"m","choices":[],
      "usage":{"prompt_tokens":1,"total_tokens":3,"completion_tokens":2},
      "system_fingerprint":"routeopd-0.1.0-w5"})"));
}

TEST(Stream, OffsetsGoOnOverPiecesAndStopStringsAreHeldBack) {
  TestServer server;
  const auto reply = server.complete({{"prompt", "a"}, {"stream", true}, {"logprobs", 0}, {"stop", "re 12"}});
  engine::Listener& listener = server.queue.listener();
  listener.begun(3);
  for (const std::int32_t id : {467, 468, 377}) listener.token(token_of(id));
  listener.token(token_of(270, true, Finish::kStop));
  listener.ended(done());
  const std::vector<Json> events = reply->events();
  ASSERT_EQ(events.size(), 4U);
  std::string text;
  std::vector<std::int64_t> offsets;
  for (const Json& event : events) {
    const Json& choice = event["choices"][0];
    offsets.push_back(choice["logprobs"]["text_offset"][0].get<std::int64_t>());
    EXPECT_EQ(offsets.back(), std::ssize(text));
    text += choice["text"].get<std::string>();
  }
  EXPECT_EQ(text, " First there a");
  EXPECT_EQ(events[3]["choices"][0]["stop_reason"], "re 12");
  EXPECT_EQ(events[3]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events[3]["system_fingerprint"], "routeopd-0.1.0-w3");
  EXPECT_FALSE(events[2].contains("system_fingerprint"));
}

TEST(Stream, EachChoiceHasItsOwnText) {
  TestServer server;
  const auto reply = server.complete(
      {{"prompt", {"Vera", "6"}}, {"n", 2}, {"stream", true}, {"echo", true}, {"max_tokens", 1}});
  engine::Listener& listener = server.queue.listener();
  listener.begun(3);
  for (const std::size_t job : {1U, 0U})
    for (const std::int32_t sample : {1, 0}) {
      engine::WrittenToken token = token_of(262 + sample, true);
      token.job = job;
      token.sample = sample;
      listener.token(token);
    }
  listener.ended(done());
  std::string texts;
  for (const Json& event : reply->events()) {
    const Json& choice = event["choices"][0];
    texts += std::to_string(choice["index"].get<int>()) + choice["text"].get<std::string>() + ";";
  }
  EXPECT_EQ(texts, "36 5;26 4;1Vera 5;0Vera 4;");
}

TEST(Stream, ChatBeginsWithTheRole) {
  TestServer server;
  const auto reply = server.ask("POST", "/v1/chat/completions",
                                R"({"messages": [{"role": "user", "content": "hi"}], "stream": true,
                                   "logprobs": true, "top_logprobs": 1})",
                                {{"x-request-id", "r"}});
  engine::Listener& listener = server.queue.listener();
  listener.begun(3);
  const std::vector<std::int32_t> top = {467};
  const std::vector<float> logits = {1.5F};
  engine::WrittenToken token = token_of(467);
  token.logprob = -0.5F;
  token.logsumexp = 2;
  token.top_ids = top;
  token.top_logits = logits;
  listener.token(token);
  listener.token(token_of(492, true, Finish::kStop));
  listener.ended(done());
  std::vector<Json> events = reply->events();
  ASSERT_EQ(events.size(), 3U);
  for (Json& event : events) event.erase("created");
  EXPECT_EQ(events[0],
            Json::parse(R"({"id":"chatcmpl-r","object":"chat.completion.chunk","model":"m","choices":[
      {"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],
      "prompt_token_ids":null,"prompt_text":null})"));
  EXPECT_EQ(events[1],
            Json::parse(R"({"id":"chatcmpl-r","object":"chat.completion.chunk","model":"m","choices":[
      {"index":0,"delta":{"content":" First"},"logprobs":{"content":[{"token":" First","logprob":-0.5,
        "bytes":[32,70,105,114,115,116],"top_logprobs":[{"token":" First","logprob":-0.5,
        "bytes":[32,70,105,114,115,116]}]}]},"finish_reason":null,"token_ids":null}]})"));
  EXPECT_EQ(events[2]["choices"][0]["delta"], (Json{{"content", ""}}));
  EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(events[2]["choices"][0]["stop_reason"].is_null());
}

TEST(Stream, AFailureBeforeTheBeginningHasAStatusAndOneLaterIsAnEvent) {
  TestServer server;
  const Json body = {{"prompt", "a"}, {"stream", true}};
  const auto early = server.complete(body);
  server.queue.listener().ended({.ending = engine::Ending::kExpired, .message = "too late", .results_J = {}});
  EXPECT_EQ(early->status, 504);
  EXPECT_FALSE(early->pieces);
  EXPECT_EQ(early->json()["error"]["message"], "too late");

  const auto late = server.complete(body);
  server.queue.listener().begun(3);
  server.queue.listener().token(token_of(467));
  server.queue.listener().ended({.ending = engine::Ending::kFailed, .message = "NaN", .results_J = {}});
  EXPECT_EQ(late->status, 200);
  EXPECT_TRUE(late->ended);
  const std::vector<Json> events = late->events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1]["error"]["code"], 500);
  EXPECT_EQ(events[1]["error"]["message"], "NaN");
}

TEST(Stream, UsageInEveryPieceWhereAskedFor) {
  TestServer server;
  const auto reply =
      server.complete({{"prompt", "Vera"},
                       {"stream", true},
                       {"stream_options", {{"include_usage", true}, {"continuous_usage_stats", true}}}});
  server.queue.listener().begun(3);
  server.queue.listener().token(token_of(467));
  server.queue.listener().token(token_of(468, true));
  server.queue.listener().ended(done());
  const std::vector<Json> events = reply->events();
  EXPECT_EQ(events[0]["usage"], (Json{{"prompt_tokens", 4}, {"total_tokens", 5}, {"completion_tokens", 1}}));
  EXPECT_EQ(events[1]["usage"]["completion_tokens"], 2);
  EXPECT_EQ(events[2]["usage"]["completion_tokens"], 2);
}

}  // namespace
}  // namespace routeopd::serve
