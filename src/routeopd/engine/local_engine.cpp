// Scoring: packed sequences in portions of bounded size, the response states alone through the head.
//
// Shapes: N states of the rollout, of which C in a portion; K columns of top-k, G ids gathered, H hidden size.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/local_engine.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "routeopd/base/error.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/model/decoder.h"
#include "routeopd/model/heads/gather_head.h"
#include "routeopd/model/response_batch.h"

namespace routeopd::engine {
namespace {

template <class T>
void append(std::vector<T>& all, const at::Tensor& rows) {
  const at::Tensor flat = rows.contiguous();
  const T* const values = flat.const_data_ptr<T>();
  all.insert(all.end(), values, values + flat.numel());
}

}  // namespace

std::int64_t longest_response(const model::Model& model, std::span<const Prompt> prompts, std::int64_t wanted,
                              std::int64_t most) {
  if (wanted > 0) return wanted;
  std::int64_t longest = 0;
  for (const Prompt& prompt : prompts) longest = std::max<std::int64_t>(longest, std::ssize(prompt.ids));
  return std::clamp<std::int64_t>(model.config.max_position_embeddings - longest, 1, most);
}

LocalEngine::LocalEngine(const model::Model& model, std::int32_t real_ids, LocalLimits limits)
    : model_(model), real_ids_(real_ids), limits_(limits) {
  if (real_ids < 1 || real_ids > model.config.vocab_size) {
    throw UserError(
        "engine: the tokenizer has {} ids, but the model's embedding has {} rows; do they belong together?",
        real_ids, model.config.vocab_size);
  }
}

void LocalEngine::check_prompts(std::span<const Prompt> prompts, const Sampling& sampling) const {
  for (const Prompt& prompt : prompts) {
    if (prompt.ids.empty()) throw UserError("prompt {}: has no tokens; expected at least one", prompt.id);
    const auto wrong = std::find_if(prompt.ids.begin(), prompt.ids.end(),
                                    [&](std::int32_t id) { return id < 0 || id >= real_ids_; });
    if (wrong != prompt.ids.end())
      throw UserError("prompt {}: id {} is outside the vocabulary of {} ids", prompt.id, *wrong, real_ids_);
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

const model::StreamingHead& LocalEngine::streaming_head() {
  if (!streaming_head_)
    streaming_head_ = std::make_unique<model::StreamingHead>(model_.head_VH.detach(), real_ids_);
  return *streaming_head_;
}

void LocalEngine::refresh() {
  streaming_head_.reset();
}

StateValues LocalEngine::score(const Rollout& rollout, const ScoreRequest& request) {
  const c10::NoGradGuard no_grad;
  const std::int64_t states = rollout.states();
  ROUTEOPD_INVARIANT(std::ssize(request.gather_ids_NG) == states * request.gather_columns);
  for (const Response& response : rollout.responses_B) {
    const std::int64_t length =
        std::ssize(rollout.prompt_ids_P[static_cast<std::size_t>(response.prompt)]) + response.length;
    if (length > model_.config.max_position_embeddings)
      throw UserError("score: a sequence of {} tokens passes the model's {} positions", length,
                      model_.config.max_position_embeddings);
  }
  const model::StreamingHead& head = streaming_head();
  StateValues values;
  values.columns = std::min(request.k, real_ids_);
  values.hidden_size = request.hidden ? model_.config.hidden_size : 0;
  at::Tensor gather_NG;
  if (request.gather_columns > 0) {
    gather_NG = at::from_blob(const_cast<std::int32_t*>(request.gather_ids_NG.data()),
                              {states, request.gather_columns}, at::kInt);
  }
  for (std::size_t next = 0; next < rollout.responses_B.size();) {
    check_interrupt();
    const std::size_t end =
        model::portion_end(rollout, next, rollout.responses_B.size(), limits_.score_tokens);
    const model::ResponseBatch portion = model::pack_responses(rollout, std::exchange(next, end), end);
    const at::Tensor hidden_CH =
        model::packed_hidden(model_, portion.packed).index_select(0, portion.state_places);
    const model::HeadScores scores = head.score(
        hidden_CH, std::max(values.columns, 1),
        gather_NG.defined() ? gather_NG.slice(0, portion.first_state, portion.end_state) : at::Tensor());
    if (values.columns > 0) {
      append(values.top_ids_NK, scores.top_ids_TK);
      append(values.top_logits_NK, scores.top_logits_TK);
    }
    append(values.logsumexp_N, scores.logsumexp_T);
    append(values.gathered_NG, scores.gathered_TG);
    if (request.hidden) append(values.hidden_NH, hidden_CH);
    values.tokens_read += portion.packed.tokens();
  }
  return values;
}

std::vector<float> LocalEngine::gather(const Rollout& rollout, std::span<const std::int32_t> ids_NG,
                                       std::int64_t columns) {
  const c10::NoGradGuard no_grad;
  const std::int64_t states = rollout.states();
  ROUTEOPD_INVARIANT(rollout.hidden_size == model_.config.hidden_size &&
                     std::ssize(ids_NG) == states * columns);
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
  const at::Tensor logits = model::gather_logits(hidden_NH, model_.head_VH.detach(), {offsets, ids});
  const float* next = logits.const_data_ptr<float>();
  std::vector<float> values(ids_NG.size(), std::numeric_limits<float>::quiet_NaN());
  for (std::size_t i = 0; i < ids_NG.size(); ++i)
    if (ids_NG[i] >= 0) values[i] = *next++;
  return values;
}

}  // namespace routeopd::engine
