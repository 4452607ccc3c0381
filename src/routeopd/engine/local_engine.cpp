//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/local_engine.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "routeopd/base/error.h"
#include "routeopd/base/fields.h"
#include "routeopd/base/utf8.h"
#include "routeopd/model/heads/gather_head.h"

namespace routeopd::engine {

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
  if (options_.storage == model::WeightStorage::kBFloat16 && !rounded_head_VH_.defined())
    rounded_head_VH_ = model_.head_VH.detach().to(at::kBFloat16);
  const at::Tensor logits = model::gather_logits(
      hidden_NH, rounded_head_VH_.defined() ? rounded_head_VH_ : model_.head_VH.detach(), {offsets, ids});
  const float* next = logits.const_data_ptr<float>();
  std::vector<float> values(ids_NG.size(), std::numeric_limits<float>::quiet_NaN());
  for (std::size_t i = 0; i < ids_NG.size(); ++i)
    if (ids_NG[i] >= 0) values[i] = *next++;
  return values;
}

}  // namespace routeopd::engine
