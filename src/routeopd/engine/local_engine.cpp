// Shapes: W hidden states wanted of a forward, S states that tokens are drawn from, N states of a rollout, C
// of them in a forward of scoring, R real ids, G ids gathered per state, H hidden size.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/local_engine.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "routeopd/base/error.h"
#include "routeopd/base/fields.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/base/utf8.h"
#include "routeopd/engine/score_plan.h"
#include "routeopd/model/heads/gather_head.h"

namespace routeopd::engine {
namespace {

constexpr std::size_t kHeldRows = 64;  // rows of logits that are held at a time

template <class T>
void append_rows(std::vector<T>& all, const at::Tensor& rows) {
  const at::Tensor flat = rows.contiguous();
  const T* const values = flat.const_data_ptr<T>();
  all.insert(all.end(), values, values + flat.numel());
}

// An answer to all states of the rollout, without values yet.
Answer answer_to(const Rollout& rollout) {
  Answer answer;
  for (const Response& response : rollout.responses_B) answer.rows_B.push_back(response.length);
  answer.id_N = rollout.id_N;
  return answer;
}

}  // namespace

std::int64_t longest_response(const model::Model& model, std::span<const Prompt> prompts, std::int64_t wanted,
                              std::int64_t most) {
  if (wanted > 0) return wanted;
  std::int64_t longest = 0;
  for (const Prompt& prompt : prompts) longest = std::max<std::int64_t>(longest, std::ssize(prompt.ids));
  return std::clamp<std::int64_t>(model.config.max_position_embeddings - longest, 1, most);
}

LocalEngine::LocalEngine(const model::Model& model, std::int32_t real_ids, LocalOptions options)
    : model_(model), real_ids_(real_ids), options_(options) {
  if (real_ids < 1 || real_ids > model.config.vocab_size) {
    throw UserError(
        "engine: the tokenizer has {} ids, but the model's embedding has {} rows; do they belong together?",
        real_ids, model.config.vocab_size);
  }
}

void LocalEngine::check_prompts(std::span<const Prompt> prompts, const Sampling& sampling) const {
  ROUTEOPD_INVARIANT(sampling.samples_P.empty() || sampling.samples_P.size() == prompts.size());
  for (const auto& samples : sampling.samples_P)
    ROUTEOPD_INVARIANT(!samples.empty() && samples.front() >= 0 && samples.back() < sampling.n &&
                       std::is_sorted(samples.begin(), samples.end(), std::less_equal<>()));
  for (const std::string& stop : sampling.stop)
    if (stop.empty() || find_invalid_utf8(stop) != std::string::npos)
      throw UserError("stop: expected texts of at least one character in UTF-8, got {}", shown(Json(stop)));
  if (!sampling.stop.empty() && options_.tokenizer == nullptr)
    throw UserError("stop: strings are found in text, and the model's directory has no tokenizer.json");
  for (const Prompt& prompt : prompts) {
    if (prompt.ids.empty()) throw UserError("prompt {}: has no tokens; expected at least one", prompt.id);
    const auto wrong = std::find_if(prompt.ids.begin(), prompt.ids.end(),
                                    [&](std::int32_t id) { return id < 0 || id >= real_ids_; });
    if (wrong != prompt.ids.end())
      throw UserError("prompt {}: id {} is outside the vocabulary of {} ids", prompt.id, *wrong, real_ids_);
    if (std::ssize(prompt.ids) >= model_.config.max_position_embeddings)
      throw UserError(
          "prompt {}: its {} tokens leave no room for a response in the model's {} positions; shorten it",
          prompt.id, prompt.ids.size(), model_.config.max_position_embeddings);
    const std::int64_t longest = std::ssize(prompt.ids) + sampling.max_new_tokens;
    if (longest > model_.config.max_position_embeddings) {
      throw UserError(
          "prompt {}: {} tokens and max_new_tokens = {} pass the model's {} positions; try a smaller "
          "max_new_tokens (--max-new)",
          prompt.id, prompt.ids.size(), sampling.max_new_tokens, model_.config.max_position_embeddings);
    }
    check_address({.step = sampling.step,
                   .prompt = prompt.number,
                   .response = static_cast<std::uint32_t>(sampling.n - 1),
                   .position = static_cast<std::uint32_t>(sampling.max_new_tokens)});
  }
}

// Lays out the weights and reserves blocks, where that is still to be done.
void LocalEngine::prepare(std::int64_t blocks) {
  if (!decoder_) {
    decoder_ = std::make_unique<model::InferenceDecoder>(model_, options_.storage);
    head_ = std::make_unique<model::StreamingHead>(model_.head_VH.detach(), real_ids_,
                                                   model::Backend::kHighway, options_.storage);
  }
  if (std::exchange(stale_, false)) {
    decoder_->update(model_);
    head_->update(model_.head_VH);
  }
  if (storage_ && storage_->blocks() >= blocks) return;
  storage_.reset();
  storage_ = std::make_unique<model::KvStorage>(model_.config, blocks);
}

void LocalEngine::refresh() {
  stale_ = decoder_ != nullptr;
  rounded_head_VH_.reset();
}

// The scheduler says what to read, the decoder reads it, the head gives distributions, tokens are drawn.
Rollout LocalEngine::write_responses(std::span<const Prompt> prompts, const Sampling& sampling,
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
           [&](Sequence& sequence) {
             if (!sampling.stop.empty()) sequence.stop.emplace(*options_.tokenizer, sampling.stop);
           }});

  std::int64_t total = std::ssize(prompts) * sampling.n;
  if (!sampling.samples_P.empty()) {
    total = 0;
    for (const auto& samples : sampling.samples_P) total += std::ssize(samples);
  }
  std::vector<std::unique_ptr<Sequence>> ended;
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
    for (auto& sequence : scheduler.take_ended()) {
      ended.push_back(std::move(sequence));
      if (!watch) continue;
      Rollout one;
      one.columns = capture.k;
      one.hidden_size = capture.hidden ? model_.config.hidden_size : 0;
      append_response(*ended.back(), one);
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
  for (auto& sequence : ended) {
    append_response(*sequence, rollout);
    sequence.reset();
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
    std::vector<std::pair<std::int64_t, Sequence*>> draws;  // row, response
    for (std::size_t s = 0; s < states.size(); ++s) {
      const float* const from = states[s].prompt != nullptr
                                    ? states[s].prompt->hidden_H.data()
                                    : hidden_WH.const_data_ptr<float>() + states[s].row * h;
      std::copy_n(from, h, hidden_SH.data_ptr<float>() + static_cast<std::int64_t>(s) * h);
      for (Sequence* const sequence : states[s].sequences)
        draws.emplace_back(static_cast<std::int64_t>(s), sequence);
    }
    head_->hold(hidden_SH, std::max(capture.k, 1), held_, capture.entropy);
    const auto k = static_cast<std::size_t>(held_.scores.top_ids_TK.size(1));
    const std::span top_ids(held_.scores.top_ids_TK.const_data_ptr<std::int32_t>(), states.size() * k);
    const std::span top_logits(held_.scores.top_logits_TK.const_data_ptr<float>(), states.size() * k);
    at::parallel_for(0, std::ssize(draws), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto [s, sequence] = draws[static_cast<std::size_t>(i)];
        const auto row = static_cast<std::size_t>(s);
        const StateRow state{
            .row = {.logits = {held_.logits_TR.const_data_ptr<float>() + s * real_ids_,
                               static_cast<std::size_t>(real_ids_)},
                    .sums = held_.sums_ST.data() + s,
                    .stride = std::ssize(states),
                    .width = held_.tile_width,
                    .best = top_ids[row * k]},
            .logsumexp = held_.scores.logsumexp_T.const_data_ptr<float>()[s],
            .entropy = capture.entropy ? held_.scores.entropy_T.const_data_ptr<float>()[s] : 0.0F,
            .top_ids = top_ids.subspan(row * k, k),
            .top_logits = top_logits.subspan(row * k, k),
            .hidden = {hidden_SH.const_data_ptr<float>() + s * h, static_cast<std::size_t>(h)}};
        sequence->take_token(state, sampling, capture, model_.config.eos_token_ids);
      }
    });
  }
}

// Every prompt is read once for its responses, and the response states alone go through the head.
Answer LocalEngine::read_responses(const Rollout& rollout, const ScoreRequest& request) {
  const c10::NoGradGuard no_grad;
  const std::int64_t states = rollout.states(), h = model_.config.hidden_size;
  for (const Response& response : rollout.responses_B) {
    const std::int64_t length =
        std::ssize(rollout.prompt_ids_P[static_cast<std::size_t>(response.prompt)]) + response.length;
    if (length > model_.config.max_position_embeddings)
      throw UserError("score: a sequence of {} tokens passes the model's {} positions", length,
                      model_.config.max_position_embeddings);
  }
  const auto outside = [&](std::int32_t id) { return id < 0 || id >= model_.config.vocab_size; };
  for (const std::vector<std::int32_t>& ids : rollout.prompt_ids_P)
    ROUTEOPD_INVARIANT(std::none_of(ids.begin(), ids.end(), outside));
  ROUTEOPD_INVARIANT(std::none_of(rollout.id_N.begin(), rollout.id_N.end(), outside));
  Answer answer = answer_to(rollout);
  StateValues& values = answer.values;
  values.columns = std::min(request.k, real_ids_);
  values.hidden_size = request.hidden ? h : 0;
  at::Tensor gather_NG;
  if (request.gather_columns > 0) {
    gather_NG = at::from_blob(const_cast<std::int32_t*>(request.gather_ids_NG.data()),
                              {states, request.gather_columns}, at::kInt);
  }
  std::int64_t most_blocks = blocks_for(options_.score_tokens);
  if (options_.kv_bytes > 0)
    most_blocks = std::min(most_blocks, options_.kv_bytes / model::KvStorage::block_bytes(model_.config));
  std::int64_t next_state = 0;
  for (std::size_t first = 0; first < rollout.responses_B.size();) {
    const Portion portion = portion_of(rollout, first, most_blocks);
    first = portion.end;
    prepare(portion.blocks);
    values.tokens_read += portion.tokens;
    std::vector<at::Tensor> prompt_ends(portion.passages.size());
    for (ChunkReader reader(portion, options_.step_tokens); !reader.done();) {
      check_interrupt();
      const Chunk chunk = reader.next();
      at::Tensor hidden_WH;
      if (chunk.batch.tokens() > 0) hidden_WH = decoder_->forward(chunk.batch, *storage_);
      for (const auto& [passage, row] : chunk.prompt_ends)
        prompt_ends[static_cast<std::size_t>(passage)] = hidden_WH[row].clone();
      const std::int64_t count = std::ssize(chunk.states);
      if (count == 0) continue;
      const at::Tensor hidden_CH = at::empty({count, h}, at::kFloat);
      for (std::int64_t i = 0; i < count; ++i) {
        const StateSource& source = chunk.states[static_cast<std::size_t>(i)];
        const float* const from =
            source.row >= 0 ? hidden_WH.const_data_ptr<float>() + source.row * h
                            : prompt_ends[static_cast<std::size_t>(source.prompt)].const_data_ptr<float>();
        std::copy_n(from, h, hidden_CH.data_ptr<float>() + i * h);
      }
      const model::HeadScores scores = head_->score(
          hidden_CH, std::max(values.columns, 1),
          gather_NG.defined() ? gather_NG.slice(0, next_state, next_state + count) : at::Tensor());
      next_state += count;
      if (values.columns > 0) {
        append_rows(values.top_ids_NK, scores.top_ids_TK);
        append_rows(values.top_logits_NK, scores.top_logits_TK);
      }
      append_rows(values.logsumexp_N, scores.logsumexp_T);
      append_rows(values.gathered_NG, scores.gathered_TG);
      if (request.hidden) append_rows(values.hidden_NH, hidden_CH);
    }
  }
  ROUTEOPD_INVARIANT(next_state == states);
  return answer;
}

// From the hidden states that were captured: G rows of the head per state, in place of a second forward.
Answer LocalEngine::gather_values(const Rollout& rollout, std::span<const std::int32_t> ids_NG,
                                  std::int64_t columns) {
  if (rollout.hidden_size == 0) return Engine::gather_values(rollout, ids_NG, columns);
  const c10::NoGradGuard no_grad;
  const std::int64_t states = rollout.states();
  ROUTEOPD_INVARIANT(rollout.hidden_size == model_.config.hidden_size);
  std::vector<std::int64_t> offsets = {0};
  std::vector<std::int32_t> ids;
  for (std::int64_t n = 0; n < states; ++n) {
    for (const std::int32_t id :
         ids_NG.subspan(static_cast<std::size_t>(n * columns), static_cast<std::size_t>(columns)))
      if (id >= 0) ids.push_back(id);
    offsets.push_back(std::ssize(ids));
  }
  const at::Tensor hidden_NH =
      at::from_blob(const_cast<float*>(rollout.hidden_NH.data()), {states, rollout.hidden_size}, at::kFloat);
  if (options_.storage == model::WeightStorage::kBFloat16 && !rounded_head_VH_.defined())
    rounded_head_VH_ = model_.head_VH.detach().to(at::kBFloat16);
  const at::Tensor logits = model::gather_logits(
      hidden_NH, rounded_head_VH_.defined() ? rounded_head_VH_ : model_.head_VH.detach(), {offsets, ids});
  const float* next = logits.const_data_ptr<float>();
  Answer answer = answer_to(rollout);
  std::vector<float>& values = answer.values.gathered_NG;
  values.assign(ids_NG.size(), std::numeric_limits<float>::quiet_NaN());
  for (std::size_t i = 0; i < ids_NG.size(); ++i)
    if (ids_NG[i] >= 0) values[i] = *next++;
  return answer;
}

}  // namespace routeopd::engine
