// Every parameter is taken, accepted where it asks for nothing, or refused by name.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "routeopd/serve/errors.h"
#include "routeopd/serve/parameters.h"
#include "serve_testing.h"

namespace routeopd::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Parameters completion(Json body) {
  body["prompt"] = "a";
  return read_parameters(body.dump(), Endpoint::kCompletions);
}

Parameters chat(Json body) {
  body["messages"] = {{{"role", "user"}, {"content", "a"}}};
  return read_parameters(body.dump(), Endpoint::kChat);
}

// "param: message" of the error, "" where there is none.
std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400);
    return error.param() + " | " + error.what();
  }
  return "";
}

TEST(ServeParameters, ReadsWhatIsSupported) {
  const Parameters asked = completion({{"n", 2},
                                       {"temperature", 0.5},
                                       {"top_p", 1},
                                       {"top_k", -1},
                                       {"max_tokens", 7},
                                       {"seed", -1},
                                       {"stop", "x"},
                                       {"logprobs", 3},
                                       {"prompt_logprobs", 0},
                                       {"echo", true},
                                       {"ignore_eos", true},
                                       {"model", "m"},
                                       {"return_token_ids", true},
                                       {"skip_special_tokens", false},
                                       {"include_stop_str_in_output", true},
                                       {"user", "me"}});
  EXPECT_EQ(asked.n, 2);
  EXPECT_EQ(asked.temperature, 0.5);
  EXPECT_EQ(asked.top_k, 0);
  EXPECT_EQ(asked.max_tokens, 7);
  EXPECT_EQ(asked.seed, ~std::uint64_t{0});
  EXPECT_THAT(asked.text.stop, ElementsAre("x"));
  EXPECT_EQ(asked.logprobs, 3);
  EXPECT_EQ(asked.prompt_logprobs, 0);
  EXPECT_TRUE(asked.echo && asked.ignore_eos && asked.return_token_ids && asked.text.include_stop);
  EXPECT_FALSE(asked.text.skip_special);
  EXPECT_TRUE(asked.add_special_tokens);
  EXPECT_EQ(completion({{"seed", 18446744073709551615ULL}}).seed, ~std::uint64_t{0});

  const Parameters talk = chat({{"logprobs", true},
                                {"top_logprobs", 2},
                                {"max_tokens", 5},
                                {"max_completion_tokens", 6},
                                {"tool_choice", "auto"}});
  EXPECT_EQ(talk.logprobs, 2);
  EXPECT_EQ(talk.max_tokens, 6);
  EXPECT_FALSE(talk.add_special_tokens);
  EXPECT_EQ(chat({{"logprobs", true}}).logprobs, 0);
  EXPECT_EQ(chat({{"logprobs", false}}).logprobs, std::nullopt);
}

TEST(ServeParameters, NullIsAsIfItWereNotThere) {
  for (const Endpoint endpoint : {Endpoint::kCompletions, Endpoint::kChat}) {
    Json body = Json::object();
    for (const std::string& name : known_parameters(endpoint)) body[name] = nullptr;
    EXPECT_EQ(refusal([&] { read_parameters(body.dump(), endpoint); }), "");
  }
}

TEST(ServeParameters, WhatIsNotSupportedIsRefusedByNameUnlessItAsksForNothing) {
  const std::vector<std::pair<std::string, std::pair<Json, Json>>> cases = {
      {"presence_penalty", {0, 0.5}},
      {"frequency_penalty", {0.0, 1}},
      {"repetition_penalty", {1, 1.1}},
      {"min_p", {0, 0.1}},
      {"logit_bias", {Json::object(), {{"3", 1}}}},
      {"suffix", {"", "b"}},
      {"use_beam_search", {false, true}},
      {"min_tokens", {0, 3}},
      {"stop_token_ids", {Json::array(), {4}}},
      {"response_format", {{{"type", "text"}}, {{"type", "json_object"}}}},
      {"best_of", {1, 2}},
      {"truncate_prompt_tokens", {nullptr, 5}}};
  for (const auto& [name, values] : cases) {
    EXPECT_EQ(refusal([&] { completion({{name, values.first}}); }), "") << name;
    EXPECT_THAT(refusal([&] { completion({{name, values.second}}); }), HasSubstr(name + " | " + name + ": "));
  }
  EXPECT_THAT(refusal([] { chat({{"tool_choice", "required"}}); }), HasSubstr("tool_choice | "));
  EXPECT_THAT(refusal([] { chat({{"tool_choice", {{"type", "function"}}}}); }), HasSubstr("tool_choice | "));
  EXPECT_THAT(refusal([] { chat({{"echo", true}}); }), HasSubstr("echo | "));
}

TEST(ServeParameters, UnknownNamesAreRefusedWithTheNearest) {
  EXPECT_THAT(
      refusal([] { completion({{"max_token", 3}}); }),
      HasSubstr("max_token | max_token: is not a parameter of this endpoint; did you mean max_tokens?"));
  EXPECT_THAT(refusal([] { chat({{"prompt", "a"}}); }), HasSubstr("prompt | "));
}

TEST(ServeParameters, WrongTypesAndRangesNameTheParameter) {
  const std::vector<std::pair<std::string, Json>> cases = {
      {"n", 0},          {"n", "1"},           {"temperature", -1}, {"temperature", 2.5}, {"top_p", 0},
      {"top_p", 1.5},    {"top_k", -2},        {"max_tokens", -1},  {"max_tokens", 1.5},  {"max_tokens", "x"},
      {"stop", 5},       {"stop", {"a", 3}},   {"stop", ""},        {"seed", "x"},        {"seed", 1.5},
      {"logprobs", -2},  {"logprobs", true},   {"echo", 1},         {"stream", "yes"},    {"model", 3},
      {"ignore_eos", 0}, {"request_id", "a b"}};
  for (const auto& [name, value] : cases)
    EXPECT_THAT(refusal([&] { completion({{name, value}}); }), HasSubstr(name + " | " + name + ": "))
        << value;
}

TEST(ServeParameters, ParametersAtOddsWithEachOther) {
  EXPECT_THAT(refusal([] { completion({{"stream_options", {{"include_usage", true}}}}); }),
              HasSubstr("stream_options | "));
  EXPECT_THAT(refusal([] { completion({{"stream", true}, {"stream_options", {{"usage", true}}}}); }),
              HasSubstr("stream_options | "));
  EXPECT_THAT(refusal([] { completion({{"stream", true}, {"prompt_logprobs", 1}}); }),
              HasSubstr("prompt_logprobs | "));
  EXPECT_THAT(refusal([] { completion({{"stream", true}, {"echo", true}, {"logprobs", 1}}); }),
              HasSubstr("echo | "));
  EXPECT_THAT(refusal([] { chat({{"top_logprobs", 1}}); }), HasSubstr("top_logprobs | "));
  EXPECT_THAT(refusal([] { chat({{"continue_final_message", true}, {"add_generation_prompt", true}}); }),
              HasSubstr("continue_final_message | "));
  EXPECT_FALSE(chat({{"continue_final_message", true}}).add_generation_prompt);
}

TEST(ServeParameters, BodiesThatAreNoObjectAreRefused) {
  for (const std::string body : {"", "x", "[]", "3", "{\"prompt\":\"a\",}", "{\"n\":1,\"n\":2}", "{} {}"})
    EXPECT_THAT(refusal([&] { read_parameters(body, Endpoint::kCompletions); }), HasSubstr(" | body: "))
        << body;
  EXPECT_THAT(refusal([] { read_parameters("{\"prompt\":\"\xff\"}", Endpoint::kCompletions); }),
              HasSubstr("UTF-8"));
  std::string deep = "{\"prompt\":";
  for (int i = 0; i < 100'000; ++i) deep += '[';
  EXPECT_THAT(refusal([&] { read_parameters(deep, Endpoint::kCompletions); }), HasSubstr("nested"));
}

}  // namespace
}  // namespace routeopd::serve
