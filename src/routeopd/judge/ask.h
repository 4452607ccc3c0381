// Questions to a judge, several at once, each answered from the cache if it was asked before.
//
// A request is {"model", "messages", "temperature", "max_tokens", "seed"} and what `extra` adds. The two
// passes differ only in their seed. A question whose answer holds no verdict is asked again under another
// seed, at most kAttempts times in all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "routeopd/judge/answer_cache.h"
#include "routeopd/judge/prompt.h"

namespace routeopd::judge {

struct JudgeSettings {
  std::string model;
  double temperature = 0.7;
  std::int64_t max_tokens = 1024;
  std::uint64_t seed = 42;  // at most 2 · 10^9: some servers take 32 bits
  Json extra = Json::object();
  int parallel = 8;
  int give_up = 5;  // failures in a row after which nothing more is asked
};

inline constexpr int kAttempts = 3;

// Throws UserError for an `extra` that would change what is asked or how often.
void check_extra(const Json& extra);

struct Question {
  const JudgeCase* asked = nullptr;
  int pass = 0;  // 0 or 1; 0 for an adjudication
  std::vector<Verdict>
      candidates;  // of an adjudication two, one of whose labels is the verdict; of a pass none
};

// The body of attempt 0, 1, … of a question. Seeds: seed + pass + 2 · attempt.
std::string request_body(const JudgeSettings& settings, const Question& question, int attempt);

struct Reply {
  std::optional<Verdict> verdict;
  bool answered = false;  // every request was answered, with or without a verdict
  std::string reason;     // why there is no verdict
};

struct AskCounts {
  std::int64_t requests = 0;  // answers that came over the network
  std::int64_t cached = 0;
  std::int64_t prompt_tokens = 0;  // of the answers that came over the network
  std::int64_t completion_tokens = 0;
};

class Asker {
 public:
  // The cache outlives it.
  Asker(ChatSettings chat, JudgeSettings settings, AnswerCache& cache);

  // A reply to every question, in their order. They are asked in the order of their requests' hashes, which
  // tells nothing about where they come from. A failure is a reply too; after settings.give_up failures in a
  // row, or one that shows that all will fail, the rest is not asked. Throws Interrupted, and UserError where
  // the cache cannot be written; the answers received until then are in the cache. `watch` is called with how
  // many are done, by one thread at a time.
  std::vector<Reply> ask(std::span<const Question> questions, const std::function<void(std::int64_t)>& watch);

  const AskCounts& counts() const { return counts_; }
  const JudgeSettings& settings() const { return settings_; }
  const std::string& endpoint() const { return chat_.endpoint.url; }
  // Why asking ended early; empty where it did not.
  const std::string& stopped() const { return stopped_; }

 private:
  class Batch;
  ChatSettings chat_;
  JudgeSettings settings_;
  AnswerCache& cache_;
  AskCounts counts_;
  std::string stopped_;
  bool ever_answered_ = false;
};

}  // namespace routeopd::judge
