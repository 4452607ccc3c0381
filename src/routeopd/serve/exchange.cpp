// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/exchange.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "routeopd/serve/answer_json.h"
#include "routeopd/serve/errors.h"

namespace routeopd::serve {
namespace {

std::uint64_t fresh_seed() {
  thread_local std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32U | device();
}

std::int32_t checked_top(std::int32_t asked, const ServedModel& model, const Limits& limits,
                         const char* name) {
  const std::int32_t top = asked < 0 ? model.real_ids : asked;  // -1: all
  if (top > limits.most_logprobs)
    throw ApiError(400,
                   fmt::format("{}: expected at most {}, which this server lists at one token, got {}", name,
                               limits.most_logprobs, top),
                   name);
  return std::min(top, model.real_ids);
}

void check_counts(const Exchange& exchange, const Limits& limits) {
  const Parameters& asked = exchange.asked;
  if (asked.n > limits.most_n)
    throw ApiError(400, fmt::format("n: expected at most {}, got {}", limits.most_n, asked.n), "n");
  if (std::ssize(exchange.prompts) * asked.n > limits.most_responses)
    throw ApiError(400,
                   fmt::format("n: expected at most {} responses to one request, got {} prompts times {}",
                               limits.most_responses, exchange.prompts.size(), asked.n),
                   "n");
  if (!asked.text.stop.empty() && exchange.model->tokenizer == nullptr)
    throw ApiError(400, "stop: strings are found in text, and the model's directory has no tokenizer.json",
                   "stop");
}

// The longest response to a prompt. Where prompt and max_tokens pass the positions, the response is cut to
// what is left of them, as vLLM does.
std::int64_t longest_response(const Exchange& exchange, const Limits& limits, std::int64_t prompt_tokens,
                              bool chat) {
  const Parameters& asked = exchange.asked;
  const std::int64_t positions = exchange.model->positions;
  constexpr std::int64_t kDefaultOfCompletions = 16;  // OpenAI's
  const std::int64_t most = std::min(positions, limits.most_new_tokens);
  if (asked.max_tokens.value_or(1) < 1 && (!asked.echo || asked.stream))
    throw ApiError(400,
                   fmt::format("max_tokens must be at least 1 (or 0 with echo), got {}.", *asked.max_tokens),
                   "max_tokens");
  if (asked.max_tokens.value_or(0) > most)
    throw ApiError(400,
                   fmt::format("max_tokens: expected at most {}, which this server writes of the model's {} "
                               "positions, got {}",
                               most, positions, *asked.max_tokens),
                   "max_tokens");
  const std::int64_t left = positions - prompt_tokens;
  const std::int64_t otherwise =
      chat ? exchange.model->defaults.max_new_tokens.value_or(most) : kDefaultOfCompletions;
  const std::int64_t wanted = std::min(asked.max_tokens.value_or(otherwise), most);
  if (wanted > 0 && left < 1)
    throw ApiError(400,
                   fmt::format("The prompt's {} tokens leave no room for a response in the model's {} "
                               "positions; shorten it",
                               prompt_tokens, positions),
                   "max_tokens");
  return std::min(wanted, left);
}

engine::Sampling sampling_of(const Exchange& exchange, std::uint64_t seed) {
  const Parameters& asked = exchange.asked;
  const engine::Decoding& otherwise = exchange.model->defaults.decoding;
  engine::Sampling sampling;
  sampling.decoding = {asked.temperature.value_or(otherwise.temperature),
                       asked.top_p.value_or(otherwise.top_p), asked.top_k.value_or(otherwise.top_k)};
  sampling.seed = seed;
  sampling.stop = asked.text.stop;
  sampling.ignore_eos = asked.ignore_eos;
  return sampling;
}

}  // namespace

std::int64_t Exchange::prompt_tokens() const {
  std::int64_t tokens = 0;
  for (const PromptInput& prompt : prompts) tokens += std::ssize(prompt.ids);
  return tokens;
}

std::string Exchange::prompt_text(std::size_t prompt) const {
  const PromptInput& input = prompts[prompt];
  if (!input.text.empty() || model->tokenizer == nullptr) return input.text;
  try {
    return model->tokenizer->decode(input.ids);
  } catch (const UserError&) {
    return {};  // an id of the vocabulary that has no token
  }
}

std::vector<engine::Job> make_jobs(Exchange& exchange, const Limits& limits) {
  const Parameters& asked = exchange.asked;
  const bool chat = !asked.messages.is_null();
  check_counts(exchange, limits);
  if (asked.logprobs)
    exchange.top = checked_top(*asked.logprobs, *exchange.model, limits, chat ? "top_logprobs" : "logprobs");
  if (asked.prompt_logprobs && !asked.stream) {
    exchange.prompt_top = checked_top(*asked.prompt_logprobs, *exchange.model, limits, "prompt_logprobs");
  } else if (asked.echo && !asked.stream) {
    exchange.prompt_top = exchange.top;
  }

  engine::Sampling sampling = sampling_of(exchange, asked.seed ? *asked.seed : fresh_seed());
  std::vector<std::int32_t> samples(static_cast<std::size_t>(asked.n));
  std::iota(samples.begin(), samples.end(), 0);
  std::vector<engine::Job> jobs;
  std::int64_t values = 0;  // that the answer may list
  exchange.job_P.clear();
  for (std::size_t p = 0; p < exchange.prompts.size(); ++p) {
    const std::vector<std::int32_t>& ids = exchange.prompts[p].ids;
    engine::Job job;
    job.name = fmt::format("prompt {}", p);
    job.number = static_cast<std::uint32_t>(p);
    job.prompt_ids = ids;
    job.sampling = sampling;
    job.sampling.max_new_tokens = longest_response(exchange, limits, std::ssize(ids), chat);
    if (job.sampling.max_new_tokens > 0) job.samples = samples;
    job.capture.k = exchange.top.value_or(0);
    job.tell_tokens = asked.stream;
    if (exchange.prompt_top && ids.size() > 1) {
      job.prompt_from = 1;
      job.k = std::max(1, *exchange.prompt_top);  // the log-partition comes with the top-k
      job.gather_columns = 1;
      job.gather_ids_RG.assign(ids.begin() + 1, ids.end());
      // The top-k tells the rank of the tokens in it; the engine counts for the others.
      job.ranks = true;
      // Completions list them with each choice, and a second time where they are echoed.
      const std::int64_t times = chat ? 1 : asked.n * (asked.echo && exchange.top ? 2 : 1);
      values += times * job.rows() * (*exchange.prompt_top + 1);
    }
    if (exchange.top) values += asked.n * job.sampling.max_new_tokens * (*exchange.top + 1);
    if (values > limits.most_values)
      throw ApiError(
          400,
          fmt::format("logprobs: the answer could list {} values or more, and this server gives at "
                      "most {}; ask for fewer prompts, tokens or values at a time",
                      values, limits.most_values),
          "logprobs");
    if (job.samples.empty() && job.rows() == 0) {
      exchange.job_P.emplace_back();
    } else {
      exchange.job_P.emplace_back(jobs.size());
      jobs.push_back(std::move(job));
    }
  }
  return jobs;
}

TokenEnd end_of(const Exchange& exchange, Finish finish, std::int32_t last_id) {
  if (finish == Finish::kLength) return TokenEnd::kLength;
  const std::vector<std::int32_t>& eos = exchange.model->eos_ids;
  const bool at_eos = !exchange.asked.ignore_eos && std::find(eos.begin(), eos.end(), last_id) != eos.end();
  return at_eos ? TokenEnd::kEos : TokenEnd::kStop;
}

WrittenResponse response_of(const Exchange& exchange, const engine::Outcome& outcome, std::size_t prompt,
                            std::int32_t sample) {
  if (!exchange.job_P[prompt]) return {};
  const Rollout& written = outcome.results_J[*exchange.job_P[prompt]].written;
  if (written.responses_B.empty()) return {};  // max_tokens = 0
  const Response& response = written.responses_B[static_cast<std::size_t>(sample)];
  const auto first = static_cast<std::size_t>(response.first_state);
  const auto length = static_cast<std::size_t>(response.length);
  const auto columns = static_cast<std::size_t>(written.columns);
  WrittenResponse result;
  result.ids = std::span(written.id_N).subspan(first, length);
  if (length > 0) result.end = end_of(exchange, response.finish, result.ids.back());
  if (!exchange.top) return result;
  result.rows.reserve(length);
  for (std::size_t n = first; n < first + length; ++n) {
    TokenRow row{.id = written.id_N[n], .logprob = written.logprob_N[n]};
    if (columns > 0) {
      row.top_ids = std::span(written.top_ids_NK).subspan(n * columns, columns);
      row.top_logits = std::span(written.top_logits_NK).subspan(n * columns, columns);
      row.logsumexp = written.logsumexp_N[n];
    }
    result.rows.push_back(row);
  }
  return result;
}

std::vector<TokenRow> prompt_rows(const Exchange& exchange, const engine::Outcome& outcome,
                                  std::size_t prompt) {
  const std::vector<std::int32_t>& ids = exchange.prompts[prompt].ids;
  std::vector<TokenRow> rows = {{.id = ids.front(), .has_value = false}};
  if (ids.size() == 1) return rows;
  const engine::JobResult& result = outcome.results_J[*exchange.job_P[prompt]];
  const engine::StateValues& read = result.read;
  const auto columns = static_cast<std::size_t>(read.columns);
  rows.reserve(ids.size());
  for (std::size_t n = 0; n + 1 < ids.size(); ++n) {
    rows.push_back({.id = ids[n + 1],
                    .logprob = read.gathered_NG[n] - read.logsumexp_N[n],
                    .rank = n < result.rank_R.size() ? result.rank_R[n] : 0,
                    .top_ids = std::span(read.top_ids_NK).subspan(n * columns, columns),
                    .top_logits = std::span(read.top_logits_NK).subspan(n * columns, columns),
                    .logsumexp = read.logsumexp_N[n]});
  }
  return rows;
}

WholeText text_of(const Exchange& exchange, std::size_t prompt, const WrittenResponse& response) {
  WholeText whole;
  if (exchange.model->tokenizer == nullptr) return whole;
  TextPieces pieces(*exchange.model->tokenizer, exchange.prompts[prompt].ids, exchange.asked.text);
  for (std::size_t i = 0; i < response.ids.size(); ++i)
    whole.text += pieces.add(response.ids[i], i + 1 < response.ids.size() ? TokenEnd::kNone : response.end);
  whole.stop = pieces.stop_string();
  return whole;
}

OrderedJson new_answer(const Exchange& exchange, const char* object) {
  OrderedJson answer = room_for(11);
  answer["id"] = exchange.id;
  answer["object"] = object;
  answer["created"] = exchange.created;
  answer["model"] = exchange.model->name;
  answer["choices"] = OrderedJson::array();
  return answer;
}

OrderedJson usage_of(std::int64_t prompt_tokens, std::int64_t written, bool whole) {
  OrderedJson usage = {{"prompt_tokens", prompt_tokens},
                       {"total_tokens", prompt_tokens + written},
                       {"completion_tokens", written}};
  if (whole) usage.update({{"prompt_tokens_details", nullptr}, {"completion_tokens_details", nullptr}});
  return usage;
}

void add_end(OrderedJson& choice, TokenEnd end, const std::string& stop) {
  OrderedJson& reason = choice["finish_reason"];
  if (end != TokenEnd::kNone) reason = end == TokenEnd::kLength ? "length" : "stop";
  OrderedJson& which = choice["stop_reason"];
  if (!stop.empty()) which = stop;
}

OrderedJson ids_if(bool shown, std::span<const std::int32_t> ids) {
  return shown ? OrderedJson(ids) : OrderedJson();
}

}  // namespace routeopd::serve
