// SPDX-License-Identifier: Apache-2.0
#include "routeopd/judge/chat.h"

#include <algorithm>

#include "routeopd/formats/json_file.h"
#include "routeopd/net/secret.h"

namespace routeopd::judge {
namespace {

constexpr const char* kPath = "chat/completions";
constexpr std::size_t kMostMessage = 300;
constexpr std::size_t kMostFinish = 32;

// The last `bytes` bytes of UTF-8 text, from the start of a character.
std::string tail(const std::string& text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  std::size_t from = text.size() - bytes;
  while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0U) == 0x80U) ++from;
  return text.substr(from);
}

std::string without_key(std::string text, const std::string& key) {
  net::hide_secret(text, key);
  return text;
}

// The first `bytes` characters on one line, without the key; bytes beyond ASCII are dropped, since they
// need not be UTF-8. The key goes last: what is dropped may have stood between two halves of it.
std::string plain_head(const std::string& text, std::size_t bytes, const std::string& key) {
  std::string plain;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte == 0x7f) {
      if (!plain.empty() && plain.back() != ' ') plain += ' ';
    } else if (byte < 0x80) {
      plain += c;
    }
  }
  net::hide_secret(plain, key);
  if (plain.size() <= bytes) return plain;
  plain.resize(bytes);
  return plain + " …";
}

std::int64_t count_in(const Json& usage, const char* name) {
  const Json& value = usage.is_object() ? formats::value_or_null(usage, name) : Json();
  constexpr std::int64_t kMost = 1LL << 40U;  // so that sums stay whole
  return value.is_number_integer() ? std::clamp<std::int64_t>(value.get<std::int64_t>(), 0, kMost) : 0;
}

std::string server_message(const net::HttpAnswer& answer, const std::string& key) {
  std::string words = answer.body;
  try {
    const Json body = formats::parse_json_object(answer.body, "answer");
    const Json& error = formats::value_or_null(body, "error");
    const Json& nested = error.is_object() ? formats::value_or_null(error, "message") : error;
    for (const Json* value :
         {&nested, &formats::value_or_null(body, "message"), &formats::value_or_null(body, "detail")}) {
      if (!value->is_string()) continue;
      words = value->get<std::string>();
      break;
    }
  } catch (const UserError&) {
    words = answer.body;  // no JSON: its beginning is shown
  }
  return plain_head(words, kMostMessage, key);
}

ChatAnswer completion_in(const std::string& body, const ChatSettings& settings) {
  const auto garbage = [&](const std::string& why) {
    return ChatFailure(ChatFailure::Kind::kGarbage,
                       fmt::format("{}: no chat completion came: {}", settings.endpoint.url, why));
  };
  Json value;
  try {
    value = formats::parse_json_object(body, "the answer");
  } catch (const UserError& error) {
    throw garbage(plain_head(error.what(), kMostMessage, settings.key));
  }
  const Json& choices = formats::value_or_null(value, "choices");
  if (!choices.is_array() || choices.empty() || !choices[0].is_object())
    throw garbage("choices[0] is missing");
  const Json& message = formats::value_or_null(choices[0], "message");
  if (!message.is_object()) throw garbage("choices[0].message is missing");
  const Json& content = formats::value_or_null(message, "content");
  // Null where a model spent all its tokens on thoughts, which servers may put elsewhere.
  if (!content.is_string() && !content.is_null()) throw garbage("choices[0].message.content is no text");
  const Json& finish = formats::value_or_null(choices[0], "finish_reason");
  const Json& usage = formats::value_or_null(value, "usage");
  return {
      content.is_string() ? tail(without_key(content.get<std::string>(), settings.key), kMostContent) : "",
      finish.is_string() ? plain_head(finish.get<std::string>(), kMostFinish, settings.key) : "",
      count_in(usage, "prompt_tokens"), count_in(usage, "completion_tokens")};
}

}  // namespace

void check_key(const ChatSettings& settings) {
  const std::string& key = settings.key;
  if (key.empty()) return;
  if (std::any_of(key.begin(), key.end(), [](char c) { return c <= ' ' || c > '~'; }))
    throw UserError(
        "the key holds a space or a character that a header cannot carry; does it end in a line feed?");
  if (!settings.endpoint.encrypted && !settings.endpoint.loopback)
    throw UserError(
        "{}: the key would cross the network unencrypted; use https, a tunnel to 127.0.0.1, or "
        "--key-env \"\" to send none",
        settings.endpoint.url);
}

ChatAnswer read_chat_answer(const net::HttpAnswer& answer, const ChatSettings& settings) {
  using Kind = ChatFailure::Kind;
  if (answer.status == 200) return completion_in(answer.body, settings);
  const bool denied = answer.status == 401 || answer.status == 404;
  const bool moved = answer.status >= 300 && answer.status < 400;
  const std::string message =
      moved ? "redirects are not followed: name the address itself" : server_message(answer, settings.key);
  throw ChatFailure(net::is_transient(answer.status) ? Kind::kAway
                    : denied                         ? Kind::kDenied
                                                     : Kind::kRefused,
                    fmt::format("{} answered {}{}{}", net::below(settings.endpoint, kPath), answer.status,
                                message.empty() ? "" : ": ", message));
}

ChatAnswer ChatClient::complete(const std::string& body, std::uint64_t address,
                                const std::function<bool()>& enough) {
  using Kind = ChatFailure::Kind;
  net::HttpRequest request{net::below(settings_.endpoint, kPath), {}, body, settings_.limits};
  if (!settings_.key.empty()) request.headers.push_back("Authorization: Bearer " + settings_.key);
  net::HttpAnswer answer;
  try {
    answer = net::post_with_retries(http_, request, settings_.retry, address, enough);
  } catch (const net::HttpFailure& failure) {
    const bool too_large = failure.kind() == net::HttpFailure::Kind::kTooLarge;
    throw ChatFailure(too_large ? Kind::kRefused : Kind::kAway, without_key(failure.what(), settings_.key));
  }
  return read_chat_answer(answer, settings_);
}

}  // namespace routeopd::judge
