// Engines for tests: one without a model, whose answers can be spoilt, and the local one as a server would
// show it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "routeopd/base/philox.h"
#include "routeopd/engine/engine.h"
#include "routeopd/engine/local_engine.h"

namespace routeopd::engine {

// The distribution after a token is a row of a fixed table, given as log-probabilities with a log-partition
// of 0. It has no hidden states, and id 1 ends a response.
class ScriptedEngine : public Engine {
 public:
  ScriptedEngine(std::int32_t real_ids, std::uint64_t seed) : real_ids_(real_ids), seed_(seed) {}

  // What is done to an answer before it is handed over.
  std::function<void(Rollout&)> spoil_rollout;
  std::function<void(Answer&, const Rollout&)> spoil_answer;

  // What was asked.
  std::int64_t written = 0, read = 0, refreshed = 0;
  std::vector<std::int32_t> ids_asked;

  void refresh() override { ++refreshed; }
  std::int32_t real_ids() const override { return real_ids_; }
  Capabilities capabilities() const override { return {}; }
  std::string name() const override { return "scripted"; }

  std::vector<float> row_after(std::int32_t token) const {
    std::vector<float> row;
    double sum = 0;
    for (std::int32_t id = 0; id < real_ids_; ++id) {
      const PhiloxBlock words = addressed_words(
          seed_, Purpose::kLaboratory,
          {.prompt = static_cast<std::uint32_t>(token), .position = static_cast<std::uint32_t>(id)}, 0);
      row.push_back(4 * (unit_uniform(words[0]) + unit_uniform(words[1]) + unit_uniform(words[2])));
      sum += std::exp(static_cast<double>(row.back()));
    }
    for (float& value : row) value -= static_cast<float>(std::log(sum));
    return row;
  }

 protected:
  Rollout write_responses(std::span<const Prompt> prompts, const Sampling& sampling, const Capture& capture,
                          const Watch& watch) override {
    ++written;
    Rollout all;
    all.columns = std::min(capture.k, real_ids_);
    std::int64_t done = 0;
    for (std::size_t p = 0; p < prompts.size(); ++p) {
      all.prompt_ids_P.push_back(prompts[p].ids);
      std::vector<std::int32_t> samples(static_cast<std::size_t>(sampling.n));
      std::iota(samples.begin(), samples.end(), 0);
      if (!sampling.samples_P.empty()) samples = sampling.samples_P[p];
      for (const std::int32_t sample : samples) {
        Rollout one;
        one.columns = all.columns;
        write_one(prompts[p], static_cast<std::int32_t>(p), sample, sampling, capture, one);
        if (spoil_rollout && watch) spoil_rollout(one);
        if (watch) watch(++done, std::ssize(prompts) * sampling.n, one);
        if (!sampling.discard) append(all, one);
      }
    }
    if (spoil_rollout) spoil_rollout(all);
    return all;
  }

  Answer read_responses(const Rollout& rollout, const ScoreRequest& request) override {
    ++read;
    ids_asked.assign(request.gather_ids_NG.begin(), request.gather_ids_NG.end());
    Answer answer;
    StateValues& values = answer.values;
    values.columns = std::min(request.k, real_ids_);
    for (const Response& response : rollout.responses_B) {
      answer.rows_B.push_back(response.length);
      std::int32_t last = rollout.prompt_ids_P[static_cast<std::size_t>(response.prompt)].back();
      for (std::int64_t n = response.first_state; n < response.first_state + response.length; ++n) {
        const std::vector<float> row = row_after(last);
        last = rollout.id_N[static_cast<std::size_t>(n)];
        answer.id_N.push_back(last);
        values.logsumexp_N.push_back(0);
        add_top(row, values.columns, values.top_ids_NK, values.top_logits_NK);
        for (std::int64_t i = n * request.gather_columns; i < (n + 1) * request.gather_columns; ++i) {
          const std::int32_t id = request.gather_ids_NG[static_cast<std::size_t>(i)];
          values.gathered_NG.push_back(id < 0 ? std::nanf("") : row.at(static_cast<std::size_t>(id)));
        }
      }
      values.tokens_read += response.length;
    }
    if (spoil_answer) spoil_answer(answer, rollout);
    return answer;
  }

 private:
  static void add_top(const std::vector<float>& row, std::int32_t columns, std::vector<std::int32_t>& ids,
                      std::vector<float>& logits) {
    std::vector<std::int32_t> order(row.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)];
    });
    for (std::int32_t i = 0; i < columns; ++i) {
      ids.push_back(order[static_cast<std::size_t>(i)]);
      logits.push_back(row[static_cast<std::size_t>(ids.back())]);
    }
  }

  void write_one(const Prompt& prompt, std::int32_t place, std::int32_t sample, const Sampling& sampling,
                 const Capture& capture, Rollout& one) const {
    std::int32_t last = prompt.ids.back();
    Response response{.prompt = place, .sample = sample, .finish = Finish::kLength};
    while (response.length < sampling.max_new_tokens && response.finish == Finish::kLength) {
      const std::vector<float> row = row_after(last);
      const StateAddress address{.step = sampling.step,
                                 .prompt = prompt.number,
                                 .response = static_cast<std::uint32_t>(sample),
                                 .position = static_cast<std::uint32_t>(response.length)};
      last = reference_sample(row, sampling.decoding,
                              unit_uniform(addressed_words(sampling.seed, Purpose::kDecode, address, 0)[0]));
      one.id_N.push_back(last);
      one.logprob_N.push_back(row[static_cast<std::size_t>(last)]);
      if (capture.k > 0) one.logsumexp_N.push_back(0);
      add_top(row, one.columns, one.top_ids_NK, one.top_logits_NK);
      ++response.length;
      if (last == 1 && !sampling.ignore_eos) response.finish = Finish::kStop;
    }
    one.responses_B.push_back(response);
  }

  static void append(Rollout& all, const Rollout& one) {
    const auto join = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    all.responses_B.push_back(one.responses_B.front());
    all.responses_B.back().first_state = all.states();
    join(all.id_N, one.id_N);
    join(all.logprob_N, one.logprob_N);
    join(all.logsumexp_N, one.logsumexp_N);
    join(all.top_ids_NK, one.top_ids_NK);
    join(all.top_logits_NK, one.top_logits_NK);
  }

  std::int32_t real_ids_;
  std::uint64_t seed_;
};

// A local engine without its hidden states, whose logits are log-probabilities.
class ServedEngine : public Engine {
 public:
  ServedEngine(const model::Model& model, std::int32_t real_ids) : engine_(model, real_ids) {}

  void refresh() override { engine_.refresh(); }
  std::int32_t real_ids() const override { return engine_.real_ids(); }
  Capabilities capabilities() const override { return {}; }
  std::string name() const override { return "served"; }

 protected:
  Rollout write_responses(std::span<const Prompt> prompts, const Sampling& sampling, const Capture& capture,
                          const Watch& watch) override {
    Rollout rollout = engine_.generate(prompts, sampling, capture, watch);
    normalise(rollout.top_logits_NK, rollout.columns, rollout.logsumexp_N);
    std::fill(rollout.logsumexp_N.begin(), rollout.logsumexp_N.end(), 0.0F);
    return rollout;
  }

  Answer read_responses(const Rollout& rollout, const ScoreRequest& request) override {
    Answer answer;
    answer.values = engine_.score(rollout, request);
    StateValues& values = answer.values;
    normalise(values.top_logits_NK, values.columns, values.logsumexp_N);
    normalise(values.gathered_NG, request.gather_columns, values.logsumexp_N);
    std::fill(values.logsumexp_N.begin(), values.logsumexp_N.end(), 0.0F);
    for (const Response& response : rollout.responses_B) answer.rows_B.push_back(response.length);
    answer.id_N = rollout.id_N;
    return answer;
  }

 private:
  static void normalise(std::vector<float>& logits, std::int64_t width,
                        const std::vector<float>& logsumexp_N) {
    for (std::size_t i = 0; i < logits.size(); ++i)
      logits[i] -= logsumexp_N[i / static_cast<std::size_t>(width)];
  }

  LocalEngine engine_;
};

}  // namespace routeopd::engine
