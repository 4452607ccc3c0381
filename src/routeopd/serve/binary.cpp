// Shapes: S sequences, P prompts, B responses, N states (rows), K of a top-k, G ids gathered per state, H
// hidden size.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/binary.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "routeopd/serve/errors.h"
#include "routeopd/serve/parameters.h"
#include "routeopd/serve/reload.h"
#include "routeopd/serve/tensor_body.h"

namespace routeopd::serve {
namespace {

constexpr const char* kSafetensors = "application/octet-stream";
constexpr std::int64_t kMostSamples = 1 << 20;
constexpr std::int64_t kMostNumber = (1 << 24) - 1;  // of a prompt, of a step: bits of an address

// Tells the client's answer once the engine has the results; it is built on the worker's thread.
class BinaryListener : public engine::Listener {
 public:
  using Build = std::function<std::string(engine::Outcome&)>;

  BinaryListener(Service& service, Call call, Build build)
      : service_(service), call_(std::move(call)), build_(std::move(build)) {
    call_.request.body = {};  // read, and perhaps large
  }

  void begun(std::int64_t) override {}
  void token(const engine::WrittenToken&) override {}
  void ended(engine::Outcome outcome) override {
    service_.worker().post([service = &service_, call = call_, build = build_,
                            kept = std::make_shared<engine::Outcome>(std::move(outcome))] {
      if (kept->ending != engine::Ending::kDone)
        return service->send_error(call, status_of(kept->ending), kept->message, {}, kept->weights_version);
      try {
        service->send(call, 200, kSafetensors, build(*kept), kept->weights_version);
      } catch (const std::exception& error) {  // memory
        service->fault(call, error);
        service->send_error(call, 500, "internal error; the server's log has the reason");
      }
    });
  }

 private:
  Service& service_;
  Call call_;
  Build build_;
};

// Answers when the jobs are done, or at once where there are none: the queue takes no empty requests.
void answer_jobs(Service& service, const Call& call, std::vector<engine::Job> jobs,
                 BinaryListener::Build build) {
  if (jobs.empty()) {
    engine::Outcome nothing;
    nothing.weights_version = service.stats().weights_version;
    return service.send(call, 200, kSafetensors, build(nothing), nothing.weights_version);
  }
  service.submit(call, std::move(jobs), std::make_shared<BinaryListener>(service, call, std::move(build)));
}

// Texts one after another: `ids` and the `lengths` that cut them.
std::vector<std::span<const std::int32_t>> cut(const std::vector<std::int32_t>& ids,
                                               const std::vector<std::int32_t>& lengths) {
  std::vector<std::span<const std::int32_t>> texts;
  std::size_t at = 0;
  for (const std::int32_t length : lengths) {
    if (static_cast<std::size_t>(length) > ids.size() - at)
      throw UserError("lengths: say more ids than the {} that were sent", ids.size());
    texts.push_back(std::span(ids).subspan(at, static_cast<std::size_t>(length)));
    at += static_cast<std::size_t>(length);
  }
  if (at != ids.size()) throw UserError("lengths: say {} ids, but {} were sent", at, ids.size());
  return texts;
}

std::vector<std::int32_t> needed(std::optional<std::vector<std::int32_t>> values, const char* name) {
  if (!values) throw UserError("{}: expected a tensor of that name, got none", name);
  return std::move(*values);
}

void limit(const char* what, std::int64_t got, std::int64_t most) {
  if (got > most) throw UserError("{}: expected at most {}, got {}", what, most, got);
}

// What a request would make us hold, before anything is allocated for it.
void limit_values(const Service& service, std::int64_t rows, std::int64_t k, std::int64_t gathers,
                  bool hidden, std::int64_t hidden_size) {
  const std::int64_t per_row = 2 + 2 * k + gathers + (hidden ? hidden_size : 0);
  if (rows > 0 && per_row > service.limits().most_tensor_values / rows)
    throw UserError("the answer would hold {} values at each of {} states; at most {} in all: ask for fewer",
                    per_row, rows, service.limits().most_tensor_values);
}

void append(auto& all, const auto& more) {
  all.insert(all.end(), more.begin(), more.end());
}

void answer_score(Service& service, Call call) {
  TensorRequest request(call.request.body);
  const Limits& limits = service.limits();
  const std::int32_t real_ids = service.model().real_ids;
  const auto ids = needed(request.numbers("ids", 0, real_ids - 1), "ids");
  const auto lengths = needed(request.numbers("lengths", 1, limits.most_prompt_tokens), "lengths");
  limit("lengths", std::ssize(lengths), limits.most_sequences);
  const auto texts = cut(ids, lengths);
  auto prompts = request.numbers("prompt_lengths", 1, limits.most_prompt_tokens)
                     .value_or(std::vector<std::int32_t>(lengths.size(), 1));
  if (prompts.size() != lengths.size())
    throw UserError("prompt_lengths: expected {} numbers, one a sequence, got {}", lengths.size(),
                    prompts.size());
  Rollout rollout;
  for (std::size_t s = 0; s < texts.size(); ++s) {
    if (prompts[s] > lengths[s])
      throw UserError("prompt_lengths: expected at most the sequence's {} tokens, got {}", lengths[s],
                      prompts[s]);
    if (prompts[s] == lengths[s]) continue;  // no state to score
    const auto prompt = texts[s].first(static_cast<std::size_t>(prompts[s]));
    if (rollout.prompt_ids_P.empty() || !std::ranges::equal(rollout.prompt_ids_P.back(), prompt))
      rollout.prompt_ids_P.emplace_back(prompt.begin(), prompt.end());
    rollout.responses_B.push_back({.prompt = static_cast<std::int32_t>(rollout.prompt_ids_P.size()) - 1,
                                   .first_state = rollout.states(),
                                   .length = lengths[s] - prompts[s]});
    append(rollout.id_N, texts[s].subspan(static_cast<std::size_t>(prompts[s])));
  }
  const std::int64_t rows = rollout.states();
  std::int64_t gathers = 0;
  const auto asked = request.matrix("gather_ids", rows, -1, real_ids - 1, gathers);
  limit("gather_ids: columns", gathers, real_ids);
  const auto k = static_cast<std::int32_t>(request.whole("k", 0, 0, limits.most_top));
  const bool hidden = request.flag("hidden", false);
  request.done();
  limit_values(service, rows, k, gathers, hidden, service.model().hidden_size);

  // The token itself is the first column, for its log-probability.
  std::vector<std::int32_t> wanted;
  wanted.reserve(static_cast<std::size_t>(rows * (gathers + 1)));
  for (std::int64_t n = 0; n < rows; ++n) {
    wanted.push_back(rollout.id_N[static_cast<std::size_t>(n)]);
    if (asked)
      append(wanted, std::span(*asked).subspan(static_cast<std::size_t>(n * gathers),
                                               static_cast<std::size_t>(gathers)));
  }
  std::vector<engine::Job> jobs = engine::reading_jobs(
      rollout, {.k = k, .gather_ids_NG = wanted, .gather_columns = gathers + 1, .hidden = hidden});
  call.counts->prompt_tokens = std::ssize(ids);
  const auto build = [&service, gathers, read_tokens = std::ssize(ids)](engine::Outcome& outcome) {
    service.metrics().prompt_tokens += read_tokens;
    engine::StateValues all;
    std::vector<float> logprobs, gathered;
    for (engine::JobResult& result : outcome.results_J) {
      engine::StateValues& read = result.read;
      all.columns = read.columns;
      all.hidden_size = read.hidden_size;
      append(all.top_ids_NK, read.top_ids_NK);
      append(all.top_logits_NK, read.top_logits_NK);
      append(all.logsumexp_N, read.logsumexp_N);
      append(all.hidden_NH, read.hidden_NH);
      for (std::size_t n = 0; n < read.logsumexp_N.size(); ++n) {
        const auto row = std::span(read.gathered_NG).subspan(n * static_cast<std::size_t>(gathers + 1));
        logprobs.push_back(row[0] - read.logsumexp_N[n]);
        append(gathered, row.subspan(1, static_cast<std::size_t>(gathers)));
      }
      read = {};
    }
    const auto n = std::ssize(logprobs);
    TensorAnswer answer;
    answer.add("logprobs", logprobs, {n});
    answer.add("logsumexp", all.logsumexp_N, {n});
    if (all.columns > 0) {
      answer.add("top_ids", all.top_ids_NK, {n, all.columns});
      answer.add("top_logits", all.top_logits_NK, {n, all.columns});
    }
    if (gathers > 0) answer.add("gathered_logits", gathered, {n, gathers});
    if (all.hidden_size > 0) answer.add("hidden", all.hidden_NH, {n, all.hidden_size});
    answer.say("weights_version", outcome.weights_version);
    return answer.bytes();
  };
  answer_jobs(service, call, std::move(jobs), build);
}

std::vector<std::string> stop_strings(const std::string& setting) {
  const Json value = Json::parse(setting, nullptr, /*allow_exceptions=*/false);
  if (value.is_null()) return {};
  if (!value.is_array() ||
      !std::all_of(value.begin(), value.end(), [](const Json& one) { return one.is_string(); }))
    throw UserError("stop: expected a JSON list of texts, got {}", setting);
  limit("stop", std::ssize(value), 64);
  std::vector<std::string> stops = value.get<std::vector<std::string>>();
  std::size_t bytes = 0;
  for (const std::string& stop : stops) bytes += stop.size();
  limit("stop: bytes in all", static_cast<std::int64_t>(bytes), std::int64_t{kMostStopBytes});
  return stops;
}

void answer_generate(Service& service, Call call) {
  TensorRequest request(call.request.body);
  const Limits& limits = service.limits();
  const auto ids = needed(request.numbers("ids", 0, service.model().real_ids - 1), "ids");
  const auto lengths = needed(request.numbers("lengths", 1, limits.most_prompt_tokens), "lengths");
  limit("lengths", std::ssize(lengths), limits.most_sequences);
  const auto texts = cut(ids, lengths);
  engine::Sampling sampling;
  sampling.n = static_cast<std::int32_t>(request.whole("n", 1, 1, limits.most_n));
  sampling.decoding = {request.number("temperature", 1, 0, 100), request.number("top_p", 1, 1e-6, 1),
                       static_cast<std::int32_t>(request.whole("top_k", 0, 0, 1 << 24))};
  sampling.max_new_tokens = request.whole("max_new_tokens", 16, 1, limits.most_new_tokens);
  sampling.seed =
      static_cast<std::uint64_t>(request.whole("seed", 42, 0, std::numeric_limits<std::int64_t>::max()));
  sampling.step = static_cast<std::uint32_t>(request.whole("step", 0, 0, kMostNumber));
  sampling.stop = stop_strings(request.setting("stop"));
  sampling.ignore_eos = request.flag("ignore_eos", false);
  engine::Capture capture;
  capture.k = static_cast<std::int32_t>(request.whole("k", 0, 0, limits.most_top));
  capture.hidden = request.flag("hidden", false);
  capture.entropy = request.flag("entropy", false);

  // Addresses: the prompts' numbers, and which samples of each.
  const auto numbers = request.numbers("prompts", 0, kMostNumber);
  if (numbers && numbers->size() != texts.size())
    throw UserError("prompts: expected {} numbers, one a prompt, got {}", texts.size(), numbers->size());
  const auto samples = request.numbers("samples", 0, sampling.n - 1);
  const auto counts = request.numbers("sample_counts", 1, kMostSamples);
  request.done();
  if (samples.has_value() != counts.has_value())
    throw UserError("samples and sample_counts: expected both or none");
  if (counts && counts->size() != texts.size())
    throw UserError("sample_counts: expected {} numbers, one a prompt, got {}", texts.size(), counts->size());
  if (samples) {
    for (const auto& part : cut(*samples, *counts)) {
      sampling.samples_P.emplace_back(part.begin(), part.end());
      if (std::adjacent_find(part.begin(), part.end(), std::greater_equal<>()) != part.end())
        throw UserError("samples: expected those of a prompt in ascending order");
    }
  }
  const std::int64_t responses = samples ? std::ssize(*samples) : std::ssize(texts) * sampling.n;
  limit("responses", responses, limits.most_responses);
  limit_values(service, responses * sampling.max_new_tokens, capture.k, 1, capture.hidden,
               service.model().hidden_size);
  std::vector<Prompt> prompts(texts.size());
  for (std::size_t p = 0; p < texts.size(); ++p) {
    prompts[p].id = std::to_string(p);
    prompts[p].number = static_cast<std::uint32_t>(numbers ? (*numbers)[p] : static_cast<std::int32_t>(p));
    prompts[p].ids.assign(texts[p].begin(), texts[p].end());
  }
  call.counts->prompt_tokens = std::ssize(ids);
  const auto build = [&service, counts = call.counts,
                      read_tokens = std::ssize(ids)](engine::Outcome& outcome) {
    Metrics& metrics = service.metrics();
    metrics.prompt_tokens += read_tokens;
    Rollout all;
    std::vector<std::int32_t> response_lengths, response_prompts, response_samples, finishes;
    for (std::size_t p = 0; p < outcome.results_J.size(); ++p) {
      Rollout& one = outcome.results_J[p].written;
      for (const Response& response : one.responses_B) {
        response_lengths.push_back(static_cast<std::int32_t>(response.length));
        response_prompts.push_back(static_cast<std::int32_t>(p));
        response_samples.push_back(response.sample);
        finishes.push_back(response.finish == Finish::kStop ? 0 : 1);
        ++(response.finish == Finish::kStop ? metrics.responses_stopped : metrics.responses_at_length);
      }
      all.columns = one.columns;
      all.hidden_size = one.hidden_size;
      append(all.id_N, one.id_N);
      append(all.logprob_N, one.logprob_N);
      append(all.logsumexp_N, one.logsumexp_N);
      append(all.entropy_N, one.entropy_N);
      append(all.top_ids_NK, one.top_ids_NK);
      append(all.top_logits_NK, one.top_logits_NK);
      append(all.hidden_NH, one.hidden_NH);
      one = {};
    }
    counts->written_tokens = all.states();
    metrics.written_tokens += all.states();
    const std::int64_t n = all.states(), b = std::ssize(response_lengths);
    TensorAnswer answer;
    answer.add("ids", all.id_N, {n});
    answer.add("logprobs", all.logprob_N, {n});
    answer.add("lengths", response_lengths, {b});
    answer.add("prompts", response_prompts, {b});
    answer.add("samples", response_samples, {b});
    answer.add("finish", finishes, {b});
    if (!all.logsumexp_N.empty()) answer.add("logsumexp", all.logsumexp_N, {n});
    if (!all.entropy_N.empty()) answer.add("entropy", all.entropy_N, {n});
    if (all.columns > 0) {
      answer.add("top_ids", all.top_ids_NK, {n, all.columns});
      answer.add("top_logits", all.top_logits_NK, {n, all.columns});
    }
    if (all.hidden_size > 0) answer.add("hidden", all.hidden_NH, {n, all.hidden_size});
    answer.say("weights_version", outcome.weights_version);
    return answer.bytes();
  };
  answer_jobs(service, call, engine::writing_jobs(prompts, sampling, capture), build);
}

// Values from hidden states that an earlier answer carried: the bits of the local engine's second way of
// gathering. They belong to the weights of that answer.
void answer_gather(Service& service, engine::RequestQueue& queue, const Call& call) {
  TensorRequest request(call.request.body);
  Rollout rollout;
  rollout.hidden_size = service.model().hidden_size;
  std::int64_t rows = 0, columns = 0;
  rollout.hidden_NH = request.floats("hidden", rows, rollout.hidden_size);
  const auto ids = request.matrix("gather_ids", rows, -1, service.model().real_ids - 1, columns);
  if (!ids) throw UserError("gather_ids: expected a tensor of that name, got none");
  const std::int64_t version =
      request.whole("weights_version", -1, -1, std::numeric_limits<std::int64_t>::max());
  request.done();
  rollout.id_N.assign(static_cast<std::size_t>(rows), 0);
  if (rows > 0) rollout.responses_B.push_back({.length = rows});
  rollout.prompt_ids_P.emplace_back(1, 0);
  engine::StateValues values;
  std::int64_t current = 0;
  queue.between_steps([&](engine::LocalEngine& engine) {
    current = queue.stats().weights_version;
    if (version >= 0 && version != current) return;
    values = engine.gather(rollout, *ids, columns);
  });
  if (version >= 0 && version != current)
    throw ApiError(409,
                   fmt::format("weights_version: the hidden states are of version {}, and the weights of {}",
                               version, current));
  TensorAnswer answer;
  answer.add("gathered_logits", values.gathered_NG, {rows, columns});
  answer.say("weights_version", current);
  service.send(call, 200, kSafetensors, answer.bytes(), current);
}

}  // namespace

void add_binary_routes(Service& service, const BinaryOptions& options) {
  service.add({"POST", "/v1/score", answer_score});
  service.add({"POST", "/v1/generate", answer_generate});
  engine::RequestQueue& queue = options.queue;
  service.add({"POST", "/v1/gather",
               [&queue](Service& serving, const Call& call) { answer_gather(serving, queue, call); }});
  const auto reloader = std::make_shared<Reloader>(queue, options.model, options.reload_root);
  service.add({"POST", "/v1/reload",
               [reloader](Service& serving, const Call& call) { answer_reload(serving, call, *reloader); }});
}

}  // namespace routeopd::serve
