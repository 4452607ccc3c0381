// SPDX-License-Identifier: Apache-2.0
#include "routeopd/judge/ask.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "routeopd/base/hashes.h"
#include "routeopd/base/interrupt.h"

namespace routeopd::judge {
namespace {

// The first 64 bits of a key: what addresses a request's random waits.
std::uint64_t address_of(const std::string& key) {
  return std::stoull(key.substr(0, 16), nullptr, 16);
}

std::optional<Verdict> verdict_in(const ChatAnswer& answer, const Question& question) {
  std::optional<Verdict> verdict = read_verdict(answer.content);
  const auto names = [&](const Verdict& candidate) { return candidate.label == verdict->label; };
  const auto& candidates = question.candidates;
  if (verdict && !candidates.empty() && std::none_of(candidates.begin(), candidates.end(), names)) return {};
  return verdict;
}

}  // namespace

void check_extra(const Json& extra) {
  if (!extra.is_object()) throw UserError("extra: expected a JSON object, got {}", shown(extra));
  for (const char* name : {"model", "messages", "seed", "n", "stream"}) {
    if (extra.contains(name)) throw UserError("extra: {} is set by judge itself; remove it", name);
  }
}

std::string request_body(const JudgeSettings& settings, const Question& question, int attempt) {
  Json body = {{"model", settings.model},
               {"messages", question.candidates.empty()
                                ? pass_messages(*question.asked)
                                : adjudication_messages(*question.asked, question.candidates.at(0),
                                                        question.candidates.at(1))},
               {"temperature", settings.temperature},
               {"max_tokens", settings.max_tokens},
               {"seed", settings.seed + static_cast<std::uint64_t>(question.pass + 2 * attempt)}};
  body.merge_patch(settings.extra);  // null takes a field away
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The threads' common state while one list of questions is asked.
class Asker::Batch {
 public:
  Batch(Asker& asker, std::span<const Question> questions, const std::function<void(std::int64_t)>& watch)
      : asker_(asker),
        questions_(questions),
        watch_(watch),
        stop_(!asker.stopped_.empty()),
        replies_(questions.size()) {
    std::vector<std::string> keys;
    for (const Question& question : questions)
      keys.push_back(sha256(request_body(asker.settings_, question, 0)));
    order_.resize(questions.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
  }

  std::vector<Reply> run() {
    const auto threads = std::min(static_cast<std::size_t>(asker_.settings_.parallel), questions_.size());
    {
      std::vector<std::jthread> workers;  // joined on every exit, also where one could not be started
      for (std::size_t t = 0; t < threads; ++t) workers.emplace_back([this] { work(); });
    }
    if (error_) std::rethrow_exception(error_);
    return std::move(replies_);
  }

 private:
  void work() {
    try {
      ChatClient client(asker_.chat_);
      for (std::size_t at = next_++; at < order_.size(); at = next_++) {
        check_interrupt();
        const std::size_t which = order_[at];
        Reply reply = reply_to(client, questions_[which]);
        const std::lock_guard lock(mutex_);
        replies_[which] = std::move(reply);
        if (watch_) watch_(++done_);
      }
    } catch (...) {  // Interrupted, the disk, memory
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      stop_ = true;
      next_ = order_.size();
    }
  }

  Reply reply_to(ChatClient& client, const Question& question) {
    Reply reply{.verdict = {}, .answered = true, .reason = {}};
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const std::string body = request_body(asker_.settings_, question, attempt);
      const std::string key = sha256(body);
      std::optional<ChatAnswer> answer = asker_.cache_.find(key);
      const bool cached = answer.has_value();
      if (!answer) {
        if (stop_) {
          const std::lock_guard lock(mutex_);
          return {{}, false, "not asked: " + asker_.stopped_};
        }
        try {
          answer = client.complete(body, address_of(key), [this] { return stop_.load(); });
        } catch (const ChatFailure& failure) {
          note_failure(failure);
          reply.answered = false;
          reply.reason = failure.what();
          if (failure.kind() == ChatFailure::Kind::kGarbage) continue;
          return reply;
        }
        asker_.cache_.add(key, asker_.settings_.model, *answer);
      }
      note_answer(*answer, cached);
      if (auto verdict = verdict_in(*answer, question)) return {std::move(verdict), true, ""};
      reply.reason = answer->finish == "length"
                         ? "no label: the judge's answer was cut off at its limit of tokens"
                         : "no label in the judge's answer";
    }
    return reply;
  }

  void note_answer(const ChatAnswer& answer, bool cached) {
    const std::lock_guard lock(mutex_);
    ++(cached ? asker_.counts_.cached : asker_.counts_.requests);
    if (cached) return;
    asker_.counts_.prompt_tokens += answer.prompt_tokens;
    asker_.counts_.completion_tokens += answer.completion_tokens;
    asker_.ever_answered_ = true;
    failures_ = 0;
  }

  // A judge that cannot be reached for one request cannot be reached for the others. One that refuses a
  // request may accept the next, unless it has accepted none so far.
  void note_failure(const ChatFailure& failure) {
    using Kind = ChatFailure::Kind;
    const std::lock_guard lock(mutex_);
    if (failure.kind() == Kind::kAway || !asker_.ever_answered_) ++failures_;
    if (failure.kind() != Kind::kDenied && failures_ < asker_.settings_.give_up) return;
    if (!stop_) asker_.stopped_ = failure.what();
    stop_ = true;
  }

  Asker& asker_;
  std::span<const Question> questions_;
  const std::function<void(std::int64_t)>& watch_;
  std::vector<std::size_t> order_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> stop_;
  std::mutex mutex_;  // of everything below, and of what belongs to asker_
  std::vector<Reply> replies_;
  std::int64_t done_ = 0;
  int failures_ = 0;
  std::exception_ptr error_;
};

Asker::Asker(ChatSettings chat, JudgeSettings settings, AnswerCache& cache)
    : chat_(std::move(chat)), settings_(std::move(settings)), cache_(cache) {
  check_key(chat_);
  check_extra(settings_.extra);
}

std::vector<Reply> Asker::ask(std::span<const Question> questions,
                              const std::function<void(std::int64_t)>& watch) {
  return Batch(*this, questions, watch).run();
}

}  // namespace routeopd::judge
