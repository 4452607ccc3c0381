// libFuzzer: what a judge sends and what is kept of it. The first byte says which: the body of an answer with
// status 200 or another, the text of an answer, the file of kept answers.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "routeopd/base/error.h"
#include "routeopd/base/utf8.h"
#include "routeopd/judge/answer_cache.h"
#include "routeopd/judge/chat.h"
#include "routeopd/judge/prompt.h"
#include "scratch.h"

namespace {

namespace judge = routeopd::judge;
using routeopd::fuzz::require;

constexpr const char* kKey = "sk-secret-key";

void check_verdict(std::string_view text) {
  if (const auto verdict = judge::read_verdict(text)) {
    require(verdict->rationale.size() <= judge::kMostRationale);
    require(routeopd::find_invalid_utf8(text) != std::string::npos ||
            routeopd::find_invalid_utf8(verdict->rationale) == std::string::npos);
  }
}

void check_answer(int status, std::string body) {
  static const judge::ChatSettings settings = [] {
    judge::ChatSettings made;
    made.endpoint = routeopd::net::read_endpoint("http://127.0.0.1:1/v1");
    made.key = kKey;
    return made;
  }();
  try {
    const judge::ChatAnswer answer =
        judge::read_chat_answer({.status = status, .body = std::move(body), .retry_after = {}}, settings);
    require(answer.content.size() <= judge::kMostContent && answer.prompt_tokens >= 0);
    require((answer.content + answer.finish).find(kKey) == std::string::npos);
    check_verdict(answer.content);
  } catch (const judge::ChatFailure& failure) {
    const std::string_view words = failure.what();
    require(words.find(kKey) == std::string_view::npos && words.size() < 1000);
    require(std::none_of(words.begin(), words.end(), [](char c) { return c >= 0 && c < ' '; }));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const routeopd::fuzz::Scratch scratch("judge");
  if (size == 0) return 0;
  const std::string_view text = routeopd::fuzz::text_of(data + 1, size - 1);
  switch (data[0] % 4U) {
    case 0:
      check_answer(200, std::string(text));
      break;
    case 1:
      check_answer(503, std::string(text));
      break;
    case 2:
      check_verdict(text);
      break;
    default:
      const std::string path = scratch.write("cache.jsonl", text);
      try {
        std::size_t kept = 0;
        {
          judge::AnswerCache cache(path);
          kept = cache.size();
          cache.add("another key", "m", {.content = "c", .finish = "stop"});
        }
        const judge::AnswerCache again(path);
        require(again.find("another key").has_value() && again.size() >= kept && again.size() <= kept + 1);
      } catch (const routeopd::UserError&) {
      }
  }
  return 0;
}
