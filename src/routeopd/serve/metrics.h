// Counters and histograms of a server, and their text for Prometheus. Any thread may count.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "routeopd/engine/request_queue.h"

namespace routeopd::serve {

class Histogram {
 public:
  // `bounds`: upper ends of the buckets, ascending; the last bucket has none.
  explicit Histogram(std::vector<double> bounds);

  void observe(double value);

  // Appends # HELP, # TYPE, the cumulative buckets, the sum and the count.
  void write(std::string& text, const std::string& name, const std::string& help) const;

 private:
  std::vector<double> bounds_;
  std::vector<std::atomic<std::int64_t>> counts_;
  std::atomic<double> sum_ = 0;
};

class Metrics {
 public:
  Metrics();

  // A request was answered, some seconds after it had arrived, if it did. `path` must be one of a fixed set:
  // each has a line of its own.
  void answered(const std::string& path, int status, std::optional<double> seconds = {});

  std::atomic<std::int64_t> prompt_tokens = 0, written_tokens = 0;  // of answers
  std::atomic<std::int64_t> responses_stopped = 0, responses_at_length = 0;
  Histogram waiting_seconds;                   // from arrival to the engine's beginning
  Histogram first_token_seconds;               // from arrival, of streams
  Histogram token_seconds;                     // between tokens of a response, of streams
  Histogram prompt_lengths, response_lengths;  // tokens

  std::string text(const engine::QueueStats& stats) const;

 private:
  Histogram seconds_;
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::int64_t> requests_;
};

}  // namespace routeopd::serve
