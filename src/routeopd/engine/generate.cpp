// Batched generation. Prompts are read once each, their cache rows repeated for the n responses; all sequences of a
// wave step together, and rows that have ended are dropped from the batch once they are a fifth of it.
//
// Shapes: B sequences in the wave, R real ids, K columns of the captured top-k, H hidden size.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "routeopd/base/error.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/model/heads/dense_head.h"
#include "routeopd/model/kernels/dense_rows.h"
#include "routeopd/model/kernels/row_topk.h"
#include "routeopd/model/kv_cache.h"

namespace routeopd::engine {
namespace {

// A response while it is being written; rows as in Rollout.
struct Sequence {
  std::int32_t prompt = 0;
  std::int32_t sample = 0;
  std::uint32_t prompt_number = 0;
  bool ended = false;
  Finish finish = Finish::kLength;
  std::vector<std::int32_t> ids;
  std::vector<float> logprobs, logsumexps, top_logits, hidden;
  std::vector<std::int32_t> top_ids;
};

class Wave {
 public:
  Wave(const model::Model& model, std::int32_t real_ids, const Sampling& sampling, const Capture& capture)
      : model_(model), real_ids_(real_ids), sampling_(sampling), capture_(capture) {
    capture_.k = std::min(capture.k, real_ids);
  }

  std::vector<Sequence> run(std::span<const Prompt> prompts, std::int32_t first_prompt) {
    std::vector<std::vector<std::int32_t>> prompt_ids;
    std::vector<std::int64_t> rows;
    for (std::size_t p = 0; p < prompts.size(); ++p) {
      prompt_ids.push_back(prompts[p].ids);
      for (std::int32_t sample = 0; sample < sampling_.n; ++sample) {
        rows.push_back(static_cast<std::int64_t>(p));
        Sequence& sequence = sequences_.emplace_back();
        sequence.prompt = first_prompt + static_cast<std::int32_t>(p);
        sequence.sample = sample;
        sequence.prompt_number = prompts[p].number;
      }
    }
    for (std::size_t i = 0; i < sequences_.size(); ++i) active_.push_back(i);
    model::KvCache cache(model_.config, std::ssize(prompts));
    at::Tensor hidden_BH = cache.prefill(model_, model::pack(prompt_ids));
    const at::Tensor repeated = at::tensor(rows, at::kLong);
    cache.select(repeated);
    hidden_BH = hidden_BH.index_select(0, repeated);
    at::Tensor logits_BR;
    for (std::int64_t position = 0;; ++position) {
      check_interrupt();
      if (!logits_BR.defined() || logits_BR.size(0) != hidden_BH.size(0))
        logits_BR = at::empty({hidden_BH.size(0), real_ids_}, at::kFloat);
      model::dense_logits(hidden_BH, model_.head_VH, real_ids_, logits_BR);
      const at::Tensor ids_B = take_tokens(logits_BR, hidden_BH, position);
      if (active_left_ == 0) return std::move(sequences_);
      hidden_BH = cache.step(model_, drop_ended(cache, ids_B));
    }
  }

 private:
  // Samples a token for every sequence that has not ended, and records it with what is to be captured.
  at::Tensor take_tokens(const at::Tensor& logits_BR, const at::Tensor& hidden_BH, std::int64_t position) {
    at::Tensor ids_B = at::zeros({logits_BR.size(0)}, at::kLong);
    std::int64_t* const ids = ids_B.data_ptr<std::int64_t>();
    const at::Tensor hidden = hidden_BH.contiguous();
    at::parallel_for(0, logits_BR.size(0), 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        Sequence& sequence = sequences_[active_[static_cast<std::size_t>(row)]];
        if (sequence.ended) continue;
        const std::span logits(logits_BR.const_data_ptr<float>() + row * real_ids_,
                               static_cast<std::size_t>(real_ids_));
        record(sequence, logits, position);
        ids[row] = sequence.ids.back();
        if (!capture_.hidden) continue;
        const float* const state = hidden.const_data_ptr<float>() + row * hidden.size(1);
        sequence.hidden.insert(sequence.hidden.end(), state, state + hidden.size(1));
      }
    });
    active_left_ =
        std::count_if(active_.begin(), active_.end(), [&](std::size_t i) { return !sequences_[i].ended; });
    return ids_B;
  }

  void record(Sequence& sequence, std::span<const float> logits, std::int64_t position) const {
    const StateAddress address{.step = sampling_.step,
                               .prompt = sequence.prompt_number,
                               .response = static_cast<std::uint32_t>(sequence.sample),
                               .position = static_cast<std::uint32_t>(position)};
    const float uniform = unit_uniform(addressed_words(sampling_.seed, Purpose::kDecode, address, 0)[0]);
    const std::int32_t id = sample_row(logits, sampling_.decoding, uniform);
    if (id < 0) {
      throw UserError(
          "generate: the model gives NaN or infinite logits at token {} of response {} to prompt {}; "
          "are its weights whole?",
          position, sequence.sample, sequence.prompt);
    }
    sequence.ids.push_back(id);
    const model::RowLse lse = model::row_logsumexp(logits);
    sequence.logprobs.push_back(static_cast<float>(lse.log_prob(logits[static_cast<std::size_t>(id)])));
    if (capture_.k > 0 || capture_.hidden)
      sequence.logsumexps.push_back(static_cast<float>(static_cast<double>(lse.top) + lse.log_sum));
    if (capture_.k > 0) {
      const auto k = static_cast<std::size_t>(capture_.k), at = sequence.top_ids.size();
      sequence.top_ids.resize(at + k);
      sequence.top_logits.resize(at + k);
      float ignored = 0;
      model::topk_logsumexp(logits.data(), 1, std::ssize(logits), std::ssize(logits), capture_.k,
                            sequence.top_logits.data() + at, sequence.top_ids.data() + at, &ignored);
    }
    const auto& eos = model_.config.eos_token_ids;
    if (std::find(eos.begin(), eos.end(), id) != eos.end()) {
      sequence.ended = true;
      sequence.finish = Finish::kStop;
    } else if (position + 1 == sampling_.max_new_tokens) {
      sequence.ended = true;
    }
  }

  // Compacts the batch when enough of it has ended; returns the ids of the rows that are left.
  at::Tensor drop_ended(model::KvCache& cache, const at::Tensor& ids_B) {
    if (active_left_ * 5 > std::ssize(active_) * 4) return ids_B;
    std::vector<std::int64_t> kept;
    std::vector<std::size_t> still;
    for (std::size_t row = 0; row < active_.size(); ++row) {
      if (sequences_[active_[row]].ended) continue;
      kept.push_back(static_cast<std::int64_t>(row));
      still.push_back(active_[row]);
    }
    active_ = std::move(still);
    const at::Tensor rows = at::tensor(kept, at::kLong);
    cache.select(rows);
    return ids_B.index_select(0, rows);
  }

  const model::Model& model_;
  std::int32_t real_ids_;
  Sampling sampling_;
  Capture capture_;
  std::vector<Sequence> sequences_;
  std::vector<std::size_t> active_;  // the sequence of each row of the batch
  std::int64_t active_left_ = 0;     // rows that have not ended
};

template <class T>
void append(std::vector<T>& all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

Rollout LocalEngine::generate(std::span<const Prompt> prompts, const Sampling& sampling,
                              const Capture& capture, const Watch& watch) {
  const c10::NoGradGuard no_grad;
  check_prompts(prompts, sampling);
  Rollout rollout;
  for (const Prompt& prompt : prompts) rollout.prompt_ids_P.push_back(prompt.ids);
  rollout.columns = std::min(capture.k, real_ids_);
  rollout.hidden_size = capture.hidden ? model_.config.hidden_size : 0;
  const auto wave = static_cast<std::size_t>(std::max<std::int64_t>(1, limits_.sequences / sampling.n));
  for (std::size_t first = 0; first < prompts.size(); first += wave) {
    const auto part = prompts.subspan(first, std::min(wave, prompts.size() - first));
    for (const Sequence& sequence :
         Wave(model_, real_ids_, sampling, capture).run(part, static_cast<std::int32_t>(first))) {
      rollout.responses_B.push_back({.prompt = sequence.prompt,
                                     .sample = sequence.sample,
                                     .first_state = rollout.states(),
                                     .length = std::ssize(sequence.ids),
                                     .finish = sequence.finish});
      for (std::uint32_t position = 0; position < sequence.ids.size(); ++position) {
        rollout.address_N.push_back({.step = sampling.step,
                                     .prompt = sequence.prompt_number,
                                     .response = static_cast<std::uint32_t>(sequence.sample),
                                     .position = position});
      }
      append(rollout.id_N, sequence.ids);
      append(rollout.logprob_N, sequence.logprobs);
      append(rollout.logsumexp_N, sequence.logsumexps);
      append(rollout.top_ids_NK, sequence.top_ids);
      append(rollout.top_logits_NK, sequence.top_logits);
      append(rollout.hidden_NH, sequence.hidden);
    }
    if (watch) watch(std::ssize(rollout.responses_B), std::ssize(prompts) * sampling.n);
  }
  return rollout;
}

}  // namespace routeopd::engine
