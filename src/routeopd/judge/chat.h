// An OpenAI-compatible chat endpoint: POST ENDPOINT/chat/completions, one answer per request.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "routeopd/net/http_client.h"
#include "routeopd/net/retry.h"
#include "routeopd/net/url.h"

namespace routeopd::judge {

struct ChatSettings {
  net::Endpoint endpoint;
  std::string key;  // sent as "Authorization: Bearer KEY" and nowhere else; empty: no such header
  net::HttpLimits limits;
  net::RetryRule retry;
};

// Throws UserError for a key that a header cannot carry, and for one that would cross a network unencrypted.
void check_key(const ChatSettings& settings);

struct ChatAnswer {
  std::string content;  // at most kMostContent bytes, the last ones
  std::string finish;   // "stop", "length", …, at most 32 bytes
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;  // 0 where the server does not tell

  bool operator==(const ChatAnswer&) const = default;
};

inline constexpr std::size_t kMostContent = 64 << 10U;  // a verdict stands at the end of any reasoning

class ChatFailure : public UserError {
 public:
  enum class Kind {
    kAway,     // no answer, even after retries: no connection, 429, 5xx, a time limit
    kRefused,  // sending this request again is useless: 400, 413, an answer that is too long
    kDenied,   // so is sending any other: 401, 404
    kGarbage,  // an answer that is no chat completion
  };
  ChatFailure(Kind kind, const std::string& message) : UserError(message), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

// What a server sent, as an answer. Throws ChatFailure as ChatClient::complete() does.
ChatAnswer read_chat_answer(const net::HttpAnswer& answer, const ChatSettings& settings);

// One thread at a time uses a client.
class ChatClient {
 public:
  explicit ChatClient(ChatSettings settings) : settings_(std::move(settings)) {}

  // The answer to a request's body. `address` names the request (net::wait_after); nothing is sent again once
  // `enough` says so. Throws ChatFailure, with the server's own message, bounded, on one line and without the
  // key; Interrupted.
  ChatAnswer complete(const std::string& body, std::uint64_t address, const std::function<bool()>& enough);

 private:
  ChatSettings settings_;
  net::HttpClient http_;
};

}  // namespace routeopd::judge
