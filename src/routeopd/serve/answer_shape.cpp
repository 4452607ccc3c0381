// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/answer_shape.h"

#include <chrono>
#include <exception>

#include "routeopd/base/utf8.h"
#include "routeopd/serve/answer_json.h"
#include "routeopd/serve/errors.h"

namespace routeopd::serve {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// What both kinds of answers share.
class AnswerListener : public engine::Listener {
 public:
  AnswerListener(Service& service, Call call, Exchange exchange, const AnswerShape& shape)
      : service_(service), call_(std::move(call)), exchange_(std::move(exchange)), shape_(shape) {
    call_.request.body = {};  // read, and perhaps large
    call_.counts->prompt_tokens = exchange_.prompt_tokens();
  }

  Exchange& exchange() { return exchange_; }
  const Call& call() const { return call_; }

  void begun(std::int64_t) override {
    service_.metrics().waiting_seconds.observe(seconds_between(call_.request.arrived, Clock::now()));
  }

 protected:
  void count_prompts() {
    Metrics& metrics = service_.metrics();
    metrics.prompt_tokens += exchange_.prompt_tokens();
    for (const PromptInput& prompt : exchange_.prompts)
      metrics.prompt_lengths.observe(static_cast<double>(prompt.ids.size()));
  }
  void count_response(std::int64_t tokens, Finish finish) {
    Metrics& metrics = service_.metrics();
    metrics.written_tokens += tokens;
    call_.counts->written_tokens += tokens;
    metrics.response_lengths.observe(static_cast<double>(tokens));
    ++(finish == Finish::kStop ? metrics.responses_stopped : metrics.responses_at_length);
  }

  Service& service_;
  Call call_;
  Exchange exchange_;
  const AnswerShape& shape_;
};

// Answers with one body, which the worker builds: it may be megabytes.
class WholeAnswer : public AnswerListener, public std::enable_shared_from_this<WholeAnswer> {
 public:
  using AnswerListener::AnswerListener;

  void token(const engine::WrittenToken&) override {}

  void ended(engine::Outcome outcome) override {
    const auto kept = std::make_shared<const engine::Outcome>(std::move(outcome));
    service_.worker().post([self = shared_from_this(), kept] { self->answer(*kept); });
  }

  void answer(const engine::Outcome& outcome) {
    if (outcome.ending != engine::Ending::kDone)
      return service_.send_error(call_, status_of(outcome.ending), outcome.message, {},
                                 outcome.weights_version);
    std::string body;
    try {
      body = json_text(shape_.whole(exchange_, outcome, service_.fingerprint(outcome.weights_version)));
    } catch (const std::exception& error) {
      service_.fault(call_, error);
      return service_.send_error(call_, 500, "internal error; the server's log has the reason", {},
                                 outcome.weights_version);
    }
    count_prompts();
    for (const engine::JobResult& result : outcome.results_J)
      for (const Response& response : result.written.responses_B)
        count_response(response.length, response.finish);
    service_.send(call_, 200, "application/json", std::move(body), outcome.weights_version);
  }
};

// Answers with a piece per token (server-sent events). A piece takes microseconds, and is made on the
// engine's thread: handing it to another would cost as much.
class StreamAnswer : public AnswerListener {
 public:
  StreamAnswer(Service& service, Call call, Exchange exchange, const AnswerShape& shape)
      : AnswerListener(service, std::move(call), std::move(exchange), shape) {}

  // Once the jobs are made and before they are handed over.
  void prepare() {
    choices_.reserve(exchange_.choices());
    for (std::size_t prompt = 0; prompt < exchange_.prompts.size(); ++prompt) {
      if (exchange_.job_P[prompt]) prompt_of_job_.push_back(prompt);
      for (std::int32_t sample = 0; sample < exchange_.asked.n; ++sample) {
        Choice& choice = choices_.emplace_back();
        const std::vector<std::int32_t>& ids = exchange_.prompts[prompt].ids;
        if (exchange_.model->tokenizer != nullptr)
          choice.pieces.emplace(*exchange_.model->tokenizer, ids, exchange_.asked.text);
        const std::span context = std::span(ids).last(std::min(kContext, ids.size()));
        choice.before.assign(context.begin(), context.end());
      }
    }
  }

  void begun(std::int64_t weights_version) override {
    AnswerListener::begun(weights_version);
    fingerprint_ = service_.fingerprint(weights_version);
    net::Headers headers = service_.headers(call_, weights_version);
    headers.emplace_back("Cache-Control", "no-cache");
    call_.reply->begin(200, std::move(headers), "text/event-stream; charset=utf-8");
    has_begun_ = true;
    for (const OrderedJson& piece : shape_.opening(exchange_)) say(json_text(piece));
  }

  void token(const engine::WrittenToken& token) override {
    const std::size_t prompt = prompt_of_job_[token.job];
    const std::size_t number = exchange_.choice(prompt, token.sample);
    Choice& choice = choices_[number];
    time_token(choice);
    ++choice.count;
    Piece piece{.prompt = prompt, .choice = number};
    if (token.ended) {
      piece.end = end_of(exchange_, token.finish, token.id);
      count_response(choice.count, token.finish);
      if (!exchange_.asked.include_usage) piece.fingerprint = fingerprint_;
    }
    if (choice.count == 1 && exchange_.asked.echo && !exchange_.asked.return_token_ids)
      piece.text = exchange_.prompt_text(prompt);
    if (choice.pieces) {
      piece.text += choice.pieces->add(token.id, piece.end);
      piece.stop = choice.pieces->stop_string();
    }
    piece.row = {.id = token.id,
                 .logprob = token.logprob,
                 .top_ids = token.top_ids,
                 .top_logits = token.top_logits,
                 .logsumexp = token.logsumexp};
    piece.before = choice.before;
    piece.count = choice.count;
    piece.offset = choice.offset;
    say(json_text(shape_.piece(exchange_, piece)));
    choice.offset += count_code_points(piece.text);
    if (choice.before.size() >= kContext) choice.before.erase(choice.before.begin());
    choice.before.push_back(token.id);
    ++written_;
  }

  void ended(engine::Outcome outcome) override {
    if (!has_begun_)
      return service_.send_error(call_, status_of(outcome.ending), outcome.message, {},
                                 outcome.weights_version);
    if (outcome.ending == engine::Ending::kDone) {
      count_prompts();
      if (exchange_.asked.include_usage) say(json_text(usage_piece()));
    } else {
      say(error_body(status_of(outcome.ending), outcome.message));
    }
    call_.reply->write("data: [DONE]\n\n");
    call_.reply->finish();
  }

 private:
  static constexpr std::size_t kContext = 4;  // names of tokens depend on the last few in front

  struct Choice {
    std::optional<TextPieces> pieces;
    std::vector<std::int32_t> before;
    std::int64_t count = 0, offset = 0;
    Clock::time_point last{};
  };

  void say(const std::string& json) { call_.reply->write("data: " + json + "\n\n"); }

  void time_token(Choice& choice) {
    const Clock::time_point now = Clock::now();
    Metrics& metrics = service_.metrics();
    if (choice.count > 0) {
      metrics.token_seconds.observe(seconds_between(choice.last, now));
    } else if (written_ == 0) {
      metrics.first_token_seconds.observe(seconds_between(call_.request.arrived, now));
    }
    choice.last = now;
  }

  OrderedJson usage_piece() const {
    OrderedJson piece = new_answer(exchange_, shape_.piece_object());
    piece["usage"] = usage_of(exchange_.prompt_tokens(), written_, /*whole=*/false);
    piece["system_fingerprint"] = fingerprint_;
    return piece;
  }

  std::vector<Choice> choices_;
  std::vector<std::size_t> prompt_of_job_;
  std::int64_t written_ = 0;
  std::string fingerprint_;
  bool has_begun_ = false;
};

}  // namespace

void answer_exchange(Service& service, Call call, Exchange exchange, const AnswerShape& shape) {
  std::vector<engine::Job> jobs = make_jobs(exchange, service.limits());
  if (service.options().log_prompts)
    for (std::size_t p = 0; p < exchange.prompts.size(); ++p)
      service.log(fmt::format("{} prompt {}: {}", call.id, p, OrderedJson(exchange.prompt_text(p)).dump()));
  if (exchange.asked.stream && !jobs.empty()) {
    const auto listener =
        std::make_shared<StreamAnswer>(service, std::move(call), std::move(exchange), shape);
    listener->prepare();
    service.submit(listener->call(), std::move(jobs), listener);
    return;
  }
  const auto listener = std::make_shared<WholeAnswer>(service, std::move(call), std::move(exchange), shape);
  if (jobs.empty()) {  // the prompt alone is wanted, without values
    engine::Outcome outcome;
    outcome.weights_version = service.stats().weights_version;
    listener->answer(outcome);
    return;
  }
  service.submit(listener->call(), std::move(jobs), listener);
}

}  // namespace routeopd::serve
