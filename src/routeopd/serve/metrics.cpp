// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace routeopd::serve {
namespace {

// 1 ms to 10 minutes, in steps of 2 to 2.5.
std::vector<double> second_bounds() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 600};
}

std::vector<double> token_bounds() {
  return {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10'000, 20'000, 50'000, 100'000};
}

void write_value(std::string& text, const char* type, const std::string& name, const char* help,
                 std::int64_t value) {
  fmt::format_to(std::back_inserter(text), "# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", name, help, type,
                 value);
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

void Histogram::observe(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<std::size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

void Histogram::write(std::string& text, const std::string& name, const std::string& help) const {
  auto out = std::back_inserter(text);
  fmt::format_to(out, "# HELP {0} {1}\n# TYPE {0} histogram\n", name, help);
  std::int64_t below = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i].load(std::memory_order_relaxed);
    const std::string bound = i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf";
    fmt::format_to(out, "{}_bucket{{le=\"{}\"}} {}\n", name, bound, below);
  }
  fmt::format_to(out, "{0}_sum {1}\n{0}_count {2}\n", name, sum_.load(std::memory_order_relaxed), below);
}

Metrics::Metrics()
    : waiting_seconds(second_bounds()),
      first_token_seconds(second_bounds()),
      token_seconds(second_bounds()),
      prompt_lengths(token_bounds()),
      response_lengths(token_bounds()),
      seconds_(second_bounds()) {}

void Metrics::answered(const std::string& path, int status, std::optional<double> seconds) {
  if (seconds) seconds_.observe(*seconds);
  const std::lock_guard lock(mutex_);
  ++requests_[{path, status}];
}

std::string Metrics::text(const engine::QueueStats& stats) const {
  std::string text =
      "# HELP routeopd_requests_total Requests answered, by path and status (0: the client went away)\n"
      "# TYPE routeopd_requests_total counter\n";
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, count] : requests_)
      fmt::format_to(std::back_inserter(text), "routeopd_requests_total{{path=\"{}\",status=\"{}\"}} {}\n",
                     key.first, key.second, count);
  }
  const auto counter = [&](const char* name, const char* help, std::int64_t value) {
    write_value(text, "counter", name, help, value);
  };
  const auto gauge = [&](const char* name, const char* help, std::int64_t value) {
    write_value(text, "gauge", name, help, value);
  };
  counter("routeopd_prompt_tokens_total", "Tokens of prompts in answers", prompt_tokens);
  counter("routeopd_generation_tokens_total", "Tokens of responses in answers", written_tokens);
  counter("routeopd_responses_stopped_total", "Responses that ended by themselves or with a stop string",
          responses_stopped);
  counter("routeopd_responses_at_length_total", "Responses that ended at their longest", responses_at_length);
  counter("routeopd_engine_tokens_read_total", "Tokens that the engine read", stats.tokens_read);
  counter("routeopd_engine_tokens_written_total", "Tokens that the engine wrote", stats.tokens_written);
  counter("routeopd_engine_steps_total", "Steps of the engine", stats.steps);
  counter("routeopd_engine_evictions_total", "Sequences that gave up their blocks to others",
          stats.evictions);
  counter("routeopd_cancelled_total", "Requests whose clients went away", stats.cancelled);
  gauge("routeopd_requests_waiting", "Requests that the engine has not begun", stats.waiting);
  gauge("routeopd_requests_running", "Requests that the engine is working on", stats.running);
  gauge("routeopd_responses_running", "Responses being written or read", stats.responses_running);
  gauge("routeopd_kv_blocks", "Blocks of keys and values", stats.blocks_total);
  gauge("routeopd_kv_blocks_used", "Blocks of keys and values in use", stats.blocks_used);
  gauge("routeopd_kv_block_bytes", "Size of a block", stats.block_bytes);
  gauge("routeopd_weights_version", "Version of the weights", stats.weights_version);
  seconds_.write(text, "routeopd_request_seconds", "From a request's arrival to the end of its answer");
  waiting_seconds.write(text, "routeopd_request_waiting_seconds",
                        "From a request's arrival to the engine's beginning");
  first_token_seconds.write(text, "routeopd_first_token_seconds",
                            "From arrival to the first token of a stream");
  token_seconds.write(text, "routeopd_token_seconds", "Between tokens of a streamed response");
  prompt_lengths.write(text, "routeopd_request_prompt_tokens",
                       "Tokens of a prompt, of completions and chats");
  response_lengths.write(text, "routeopd_request_response_tokens",
                         "Tokens of a response, of completions and chats");
  return text;
}

}  // namespace routeopd::serve
