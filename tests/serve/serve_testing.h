// A service without sockets and without a model: requests go in as values, the engine's part is played by the
// test, and answers are kept. The tokenizer is the laboratory's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "routeopd/serve/service.h"

namespace routeopd::serve {

class KeptReply : public net::Reply {
 public:
  void send(int given_status, net::Headers given_headers, std::string given_type,
            std::string given_body) override {
    start(given_status, std::move(given_headers), std::move(given_type));
    text = std::move(given_body);
    end();
  }
  void begin(int given_status, net::Headers given_headers, std::string given_type) override {
    start(given_status, std::move(given_headers), std::move(given_type));
    pieces = true;
  }
  void write(std::string piece) override { text += piece; }
  void finish() override { end(); }
  void drop() override { dropped = true; }
  void on_gone(std::function<void()> call) override { gone = std::move(call); }
  void on_done(std::function<void(int, std::int64_t)> call) override { done = std::move(call); }

  // Answers come from another thread. False after ten seconds without one.
  bool wait() {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(10), [this] { return ended; });
  }

  std::string header(const std::string& name) const {
    for (const auto& [key, value] : headers)
      if (key == name) return value;
    return {};
  }
  Json json() const { return Json::parse(text); }

  // The events of a stream, without their last, which must be [DONE].
  std::vector<Json> events() const {
    std::vector<Json> all;
    const std::string mark = "data: ";
    std::size_t at = 0;
    bool complete = false;
    while (at < text.size()) {
      const std::size_t stop = text.find("\n\n", at);
      EXPECT_EQ(text.compare(at, mark.size(), mark), 0) << text.substr(at);
      const std::string body = text.substr(at + mark.size(), stop - at - mark.size());
      EXPECT_FALSE(complete) << "an event after [DONE]: " << body;
      complete = body == "[DONE]";
      if (!complete) all.push_back(Json::parse(body));
      at = stop + 2;
    }
    EXPECT_TRUE(complete) << text;
    return all;
  }

  int status = 0, answers = 0;
  net::Headers headers;
  std::string type, text;
  bool pieces = false, ended = false, dropped = false;
  std::function<void()> gone;
  std::function<void(int, std::int64_t)> done;
  std::mutex mutex;
  std::condition_variable changed;

 private:
  void start(int given_status, net::Headers given_headers, std::string given_type) {
    status = given_status;
    headers = std::move(given_headers);
    type = std::move(given_type);
    ++answers;
  }
  void end() {
    {
      const std::lock_guard lock(mutex);
      ended = true;
    }
    changed.notify_all();
    if (done) done(status, static_cast<std::int64_t>(text.size()));
  }
};

// What a queue is asked, kept for the test to answer.
struct KeptQueue {
  std::vector<engine::Request> requests;
  std::vector<std::uint64_t> cancelled;
  engine::QueueStats stats{.weights_version = 3};
  bool full = false, stopped = false;
  std::string refusal;  // thrown where not empty

  Backend backend() {
    return {[this](engine::Request request) {
              if (full) throw engine::QueueFull("the queue is full; try again later");
              if (stopped) throw engine::QueueStopped();
              if (!refusal.empty()) throw UserError(refusal);
              requests.push_back(std::move(request));
              return static_cast<engine::RequestQueue::Ticket>(requests.size());
            },
            [this](engine::RequestQueue::Ticket ticket) { cancelled.push_back(ticket); },
            [this] { return stats; }};
  }
  const engine::Job& job(std::size_t number = 0) const { return requests.back().jobs.at(number); }
  engine::Listener& listener() { return *requests.back().listener; }
};

inline const tokenizer::Tokenizer& lab_tokenizer() {
  static const tokenizer::Tokenizer tokenizer(std::filesystem::path(ROUTEOPD_TEST_DATA) / ".." / "lab" /
                                              "teacher");
  return tokenizer;
}

// The chat template that vLLM's answers were recorded with.
inline const text::ChatTemplates& lab_templates() {
  static const text::ChatTemplates templates(
      {{"default",
        "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
        "{% if tools %}tools: {{ tools | tojson }}\n{% endif %}"
        "{% if mood %}mood: {{ mood }}\n{% endif %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"}},
      OrderedJson::object());
  return templates;
}

inline ServiceOptions lab_options() {
  ServiceOptions options;
  options.version = "0.1.0";
  options.model = {.name = "m",
                   .root = {},
                   .tokenizer = &lab_tokenizer(),
                   .templates = &lab_templates(),
                   .real_ids = lab_tokenizer().real_ids(),
                   .positions = 256,
                   .eos_ids = {492},
                   .defaults = {}};
  return options;
}

struct TestServer {
  explicit TestServer(ServiceOptions options = lab_options())
      : service(std::move(options), queue.backend()) {}
  // With a queue of the test's own.
  TestServer(ServiceOptions options, Backend backend) : service(std::move(options), std::move(backend)) {}

  std::shared_ptr<KeptReply> ask(const std::string& method, const std::string& path,
                                 const std::string& body = {}, net::Headers headers = {}) {
    const auto reply = std::make_shared<KeptReply>();
    net::IncomingRequest request;
    request.method = method;
    request.path = path;
    request.client = "127.0.0.1:5";
    request.body = body;
    request.arrived = std::chrono::steady_clock::now();
    request.headers = std::move(headers);
    service.handler()(std::move(request), reply);
    return reply;
  }
  std::shared_ptr<KeptReply> complete(const Json& body) {
    return ask("POST", "/v1/completions", body.dump());
  }
  std::shared_ptr<KeptReply> chat(const Json& body) {
    return ask("POST", "/v1/chat/completions", body.dump());
  }

  // Ends the last request with these results.
  void finish(std::vector<engine::JobResult> results) {
    engine::Outcome outcome;
    outcome.weights_version = 3;
    outcome.results_J = std::move(results);
    queue.listener().begun(3);
    queue.listener().ended(std::move(outcome));
  }

  KeptQueue queue;
  Service service;
};

// A response of the engine. `top` has K ids per token; logits are log-probabilities plus a constant.
struct ScriptedResponse {
  std::vector<std::int32_t> ids;
  Finish finish = Finish::kLength;
  std::vector<float> logprobs{};
  std::vector<std::vector<std::pair<std::int32_t, float>>> top{};
};

inline constexpr float kLogSum = 2;  // a power of two: subtracting it again changes no bit of small numbers

inline engine::JobResult written(const std::vector<ScriptedResponse>& responses) {
  engine::JobResult result;
  Rollout& rollout = result.written;
  rollout.prompt_ids_P.resize(1);
  for (std::size_t b = 0; b < responses.size(); ++b) {
    const ScriptedResponse& response = responses[b];
    rollout.responses_B.push_back({.prompt = 0,
                                   .sample = static_cast<std::int32_t>(b),
                                   .first_state = rollout.states(),
                                   .length = std::ssize(response.ids),
                                   .finish = response.finish});
    for (std::size_t i = 0; i < response.ids.size(); ++i) {
      rollout.id_N.push_back(response.ids[i]);
      rollout.logprob_N.push_back(i < response.logprobs.size() ? response.logprobs[i] : -1.0F);
      if (response.top.empty()) continue;
      rollout.columns = static_cast<std::int32_t>(response.top[i].size());
      rollout.logsumexp_N.push_back(kLogSum);
      for (const auto& [id, logprob] : response.top[i]) {
        rollout.top_ids_NK.push_back(id);
        rollout.top_logits_NK.push_back(logprob + kLogSum);
      }
    }
  }
  return result;
}

// Values at the prompt's tokens from the second on: {logprob of the token, rank, its top}.
struct ScriptedRow {
  float logprob = 0;
  std::int32_t rank = 0;
  std::vector<std::pair<std::int32_t, float>> top;
};

inline void add_prompt_rows(engine::JobResult& result, const std::vector<ScriptedRow>& rows) {
  engine::StateValues& read = result.read;
  for (const ScriptedRow& row : rows) {
    read.columns = static_cast<std::int32_t>(row.top.size());
    read.logsumexp_N.push_back(kLogSum);
    read.gathered_NG.push_back(row.logprob + kLogSum);
    result.rank_R.push_back(row.rank);
    for (const auto& [id, logprob] : row.top) {
      read.top_ids_NK.push_back(id);
      read.top_logits_NK.push_back(logprob + kLogSum);
    }
  }
}

}  // namespace routeopd::serve
