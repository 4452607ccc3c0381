// SPDX-License-Identifier: Apache-2.0
#include "routeopd/judge/chat.h"

#include <algorithm>

#include "routeopd/formats/json_file.h"
#include "routeopd/net/secret.h"

namespace routeopd::judge {
namespace {

constexpr std::size_t kMostMessage = 300;
constexpr std::size_t kMostFinish = 32;

// The last `bytes` bytes of UTF-8 text, from the start of a character.
std::string tail(const std::string& text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  std::size_t from = text.size() - bytes;
  while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0U) == 0x80U) ++from;
  return text.substr(from);
}

// The first `bytes` characters on one line; bytes beyond ASCII are dropped, since they need not be UTF-8.
std::string plain_head(const std::string& text, std::size_t bytes) {
  std::string out;
  for (const char c : text) {
    if (out.size() == bytes) return out + " …";
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte == 0x7f) {
      if (!out.empty() && out.back() != ' ') out += ' ';
    } else if (byte < 0x80) {
      out += c;
    }
  }
  return out;
}

std::int64_t count_in(const Json& usage, const char* name) {
  const Json& value = usage.is_object() ? formats::value_or_null(usage, name) : Json();
  constexpr std::int64_t kMost = 1LL << 40U;  // so that sums stay whole
  return value.is_number_integer() ? std::clamp<std::int64_t>(value.get<std::int64_t>(), 0, kMost) : 0;
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

std::string ChatClient::without_key(std::string text) const {
  net::hide_secret(text, settings_.key);
  return text;
}

std::string ChatClient::server_message(const net::HttpAnswer& answer) const {
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
  return plain_head(without_key(words), kMostMessage);
}

ChatAnswer ChatClient::read(const std::string& body) const {
  const auto garbage = [&](const std::string& why) {
    return ChatFailure(ChatFailure::Kind::kGarbage,
                       fmt::format("{}: no chat completion came: {}", settings_.endpoint.url, why));
  };
  Json value;
  try {
    value = formats::parse_json_object(body, "the answer");
  } catch (const UserError& error) {
    throw garbage(plain_head(without_key(error.what()), kMostMessage));
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
  return {content.is_string() ? tail(without_key(content.get<std::string>()), kMostContent) : "",
          finish.is_string() ? plain_head(without_key(finish.get<std::string>()), kMostFinish) : "",
          count_in(usage, "prompt_tokens"), count_in(usage, "completion_tokens")};
}

ChatAnswer ChatClient::complete(const std::string& body, std::uint64_t address,
                                const std::function<bool()>& enough) {
  using Kind = ChatFailure::Kind;
  net::HttpRequest request{net::below(settings_.endpoint, "chat/completions"), {}, body, settings_.limits};
  if (!settings_.key.empty()) request.headers.push_back("Authorization: Bearer " + settings_.key);
  net::HttpAnswer answer;
  try {
    answer = net::post_with_retries(http_, request, settings_.retry, address, enough);
  } catch (const net::HttpFailure& failure) {
    const bool too_large = failure.kind() == net::HttpFailure::Kind::kTooLarge;
    throw ChatFailure(too_large ? Kind::kRefused : Kind::kAway, without_key(failure.what()));
  }
  if (answer.status == 200) return read(answer.body);
  const bool denied = answer.status == 401 || answer.status == 404;
  const bool moved = answer.status >= 300 && answer.status < 400;
  const std::string message =
      moved ? "redirects are not followed: name the address itself" : server_message(answer);
  throw ChatFailure(
      net::is_transient(answer.status) ? Kind::kAway
      : denied                         ? Kind::kDenied
                                       : Kind::kRefused,
      fmt::format("{} answered {}{}{}", request.url, answer.status, message.empty() ? "" : ": ", message));
}

}  // namespace routeopd::judge
