// Generation: the scheduler says what to read, the decoder reads it, the head gives distributions, tokens are drawn.
//
// Shapes: W hidden states wanted of a forward, S states that tokens are drawn from, R real ids, H hidden size.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>

#include "routeopd/base/error.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/engine/local_engine.h"

namespace routeopd::engine {
namespace {

constexpr std::size_t kHeldRows = 64;  // rows of logits that are held at a time

}  // namespace

Rollout LocalEngine::generate(std::span<const Prompt> prompts, const Sampling& sampling,
                              const Capture& wanted, const Watch& watch) {
  const c10::NoGradGuard no_grad;
  check_prompts(prompts, sampling);
  Capture capture = wanted;
  capture.k = std::min(wanted.k, real_ids_);
  stats_ = {.kv = plan_kv(model_.config, prompts, sampling, options_.kv_bytes, options_.step_tokens)};
  prepare(stats_.kv.blocks);
  BlockPool pool(stats_.kv.blocks);
  Scheduler scheduler(
      prompts, pool,
      {.step_tokens = options_.step_tokens,
       .n = sampling.n,
       .samples_P = sampling.samples_P,
       .copy_block = [&](std::int32_t from, std::int32_t to) { storage_->copy_block(from, to); },
       .begin =
           [&](Writing& writing) {
             if (!sampling.stop.empty()) writing.stop.emplace(*options_.tokenizer, sampling.stop);
           }});

  std::int64_t total = std::ssize(prompts) * sampling.n;
  if (!sampling.samples_P.empty()) {
    total = 0;
    for (const auto& samples : sampling.samples_P) total += std::ssize(samples);
  }
  std::vector<std::unique_ptr<Writing>> ended;
  while (!scheduler.done()) {
    check_interrupt();
    const auto start = std::chrono::steady_clock::now();
    const StepPlan plan = scheduler.plan();
    at::Tensor hidden_WH;
    if (plan.batch.tokens() > 0) {
      hidden_WH = decoder_->forward(plan.batch, *storage_);
      scheduler.keep_hidden(plan,
                            {hidden_WH.const_data_ptr<float>(), static_cast<std::size_t>(hidden_WH.numel())});
    }
    take_tokens(plan, hidden_WH, sampling, capture);
    for (auto& writing : scheduler.take_ended()) {
      ended.push_back(std::move(writing));
      if (!watch) continue;
      Rollout one;
      one.columns = capture.k;
      one.hidden_size = capture.hidden ? model_.config.hidden_size : 0;
      append_response(*ended.back(), sampling, one);
      if (sampling.discard) ended.back().reset();
      watch(std::ssize(ended), total, one);
    }
    ++stats_.steps;
    if (plan.batch.tokens() > 0 && plan.batch.tokens() == std::ssize(plan.batch.runs)) {
      ++stats_.decode_steps;
      stats_.decode_seconds +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    stats_.tokens_read += plan.batch.tokens();
  }
  stats_.peak_blocks = pool.peak();
  stats_.evictions = scheduler.evictions();

  std::erase(ended, nullptr);
  std::sort(ended.begin(), ended.end(), [](const auto& a, const auto& b) {
    return std::pair(a->prompt, a->sample) < std::pair(b->prompt, b->sample);
  });
  Rollout rollout;
  for (const Prompt& prompt : prompts) rollout.prompt_ids_P.push_back(prompt.ids);
  rollout.columns = capture.k;
  rollout.hidden_size = capture.hidden ? model_.config.hidden_size : 0;
  for (auto& writing : ended) {
    append_response(*writing, sampling, rollout);
    writing.reset();
  }
  return rollout;
}

void LocalEngine::take_tokens(const StepPlan& plan, const at::Tensor& hidden_WH, const Sampling& sampling,
                              const Capture& capture) {
  const std::int64_t h = model_.config.hidden_size;
  for (std::size_t first = 0; first < plan.states.size(); first += kHeldRows) {
    const std::span states =
        std::span(plan.states).subspan(first, std::min(kHeldRows, plan.states.size() - first));
    const at::Tensor hidden_SH = at::empty({std::ssize(states), h}, at::kFloat);
    std::vector<std::pair<std::int64_t, Writing*>> draws;  // row, response
    for (std::size_t s = 0; s < states.size(); ++s) {
      const float* const from = states[s].prompt != nullptr
                                    ? states[s].prompt->hidden_H.data()
                                    : hidden_WH.const_data_ptr<float>() + states[s].row * h;
      std::copy_n(from, h, hidden_SH.data_ptr<float>() + static_cast<std::int64_t>(s) * h);
      for (Writing* const writing : states[s].writings)
        draws.emplace_back(static_cast<std::int64_t>(s), writing);
    }
    head_->hold(hidden_SH, std::max(capture.k, 1), held_);
    const auto k = static_cast<std::size_t>(held_.scores.top_ids_TK.size(1));
    const std::span top_ids(held_.scores.top_ids_TK.const_data_ptr<std::int32_t>(), states.size() * k);
    const std::span top_logits(held_.scores.top_logits_TK.const_data_ptr<float>(), states.size() * k);
    at::parallel_for(0, std::ssize(draws), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto [s, writing] = draws[static_cast<std::size_t>(i)];
        const auto row = static_cast<std::size_t>(s);
        const StateRow state{
            .row = {.logits = {held_.logits_TR.const_data_ptr<float>() + s * real_ids_,
                               static_cast<std::size_t>(real_ids_)},
                    .sums = held_.sums_ST.data() + s,
                    .stride = std::ssize(states),
                    .width = held_.tile_width,
                    .best = top_ids[row * k]},
            .logsumexp = held_.scores.logsumexp_T.const_data_ptr<float>()[s],
            .top_ids = top_ids.subspan(row * k, k),
            .top_logits = top_logits.subspan(row * k, k),
            .hidden = {hidden_SH.const_data_ptr<float>() + s * h, static_cast<std::size_t>(h)}};
        writing->take_token(state, sampling, capture, model_.config.eos_token_ids);
      }
    });
  }
}

}  // namespace routeopd::engine
