// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/sequence.h"

#include <algorithm>
#include <cmath>

#include "routeopd/base/error.h"

namespace routeopd::engine {
namespace {

template <class T, class Values>
void append_values(std::vector<T>& all, const Values& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

StopFinder::StopFinder(const tokenizer::Tokenizer& tokenizer, const std::vector<std::string>& stop)
    : decoder_(tokenizer, /*skip_special=*/true), stop_(stop) {
  for (const std::string& one : stop) longest_ = std::max(longest_, one.size());
}

bool StopFinder::add(std::int32_t id) {
  tail_ += decoder_.add(id);
  const bool found = find_stop(tail_, stop_) < tail_.size();
  if (tail_.size() >= longest_) tail_.erase(0, tail_.size() - longest_ + 1);
  return found;
}

std::size_t find_stop(const std::string& text, const std::vector<std::string>& stop) {
  std::size_t first = text.size();
  for (const std::string& one : stop) first = std::min(first, text.find(one));
  return first;
}

void Sequence::take_token(const StateRow& state, const std::vector<std::int32_t>& eos) {
  const Sampling& sampling = job->sampling;
  const Capture& capture = job->capture;
  const StateAddress address{.step = sampling.step,
                             .prompt = job->number,
                             .response = static_cast<std::uint32_t>(sample),
                             .position = static_cast<std::uint32_t>(length())};
  const float uniform = unit_uniform(addressed_words(sampling.seed, Purpose::kDecode, address, 0)[0]);
  const std::int32_t id =
      std::isfinite(state.logsumexp) ? sample_row(state.row, sampling.decoding, uniform) : -1;
  if (id < 0) {
    ended = failed = true;
    return;
  }
  tokens.push_back(id);
  logprobs.push_back(state.row.logits[static_cast<std::size_t>(id)] - state.logsumexp);
  if (capture.k > 0 || capture.hidden) logsumexps.push_back(state.logsumexp);
  if (capture.entropy) entropies.push_back(state.entropy);
  if (capture.k > 0) {
    // The state may have more columns than this job asked for.
    const auto k = std::min(static_cast<std::size_t>(capture.k), state.top_ids.size());
    append_values(top_ids, state.top_ids.first(k));
    append_values(top_logits, state.top_logits.first(k));
  }
  if (capture.hidden) append_values(hidden, state.hidden);
  const bool at_eos = !sampling.ignore_eos && std::find(eos.begin(), eos.end(), id) != eos.end();
  if (at_eos || (stop && stop->add(id))) {
    ended = true;
    finish = Finish::kStop;
  } else if (static_cast<std::int64_t>(length()) == sampling.max_new_tokens) {
    ended = true;
  }
}

std::string failure_of(const Sequence& sequence) {
  return fmt::format(
      "generate: the model gives NaN or infinite logits at token {} of response {} to {}; are its weights "
      "whole?",
      sequence.length(), sequence.sample, sequence.job->name);
}

void append_response(const Sequence& sequence, std::int32_t prompt, Rollout& rollout) {
  rollout.responses_B.push_back({.prompt = prompt,
                                 .sample = sequence.sample,
                                 .first_state = rollout.states(),
                                 .length = static_cast<std::int64_t>(sequence.length()),
                                 .finish = sequence.finish});
  append_values(rollout.id_N, std::span(sequence.tokens).subspan(sequence.prompt_tokens));
  append_values(rollout.logprob_N, sequence.logprobs);
  append_values(rollout.logsumexp_N, sequence.logsumexps);
  append_values(rollout.entropy_N, sequence.entropies);
  append_values(rollout.top_ids_NK, sequence.top_ids);
  append_values(rollout.top_logits_NK, sequence.top_logits);
  append_values(rollout.hidden_NH, sequence.hidden);
}

}  // namespace routeopd::engine
