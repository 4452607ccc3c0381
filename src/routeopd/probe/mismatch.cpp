// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/mismatch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "routeopd/base/error.h"
#include "routeopd/engine/score_rollout.h"
#include "routeopd/probe/bank.h"
#include "routeopd/routing/route_states.h"
#include "routeopd/types/state_batch.h"

namespace routeopd::probe {

std::int64_t MismatchBank::bytes_per_state(const routing::ObjectiveOptions& options, std::int32_t real_ids,
                                           std::int64_t hidden_size) {
  const std::int64_t k = std::min(options.k, real_ids), width = std::min<std::int64_t>(2 * k, real_ids);
  const std::int64_t values = 32 * k;  // both models' top-k ids, logits, and values at each other's ids
  // The support twice, while the threads' parts are joined, and its ids once more in rows of one width.
  return values + (2 * Support::kBytesPerId + 4) * width + 4 * hidden_size;
}

MismatchBank::MismatchBank(engine::Engine& base, engine::Engine& teacher, std::span<const Prompt> prompts,
                           std::int64_t states, std::int64_t max_new_tokens,
                           const routing::ObjectiveOptions& options, std::uint64_t seed)
    : MismatchBank(base, std::vector<engine::Engine*>{&teacher}, prompts, states, max_new_tokens, options,
                   seed) {}

MismatchBank::MismatchBank(engine::Engine& base, std::span<engine::Engine* const> teachers,
                           std::span<const Prompt> prompts, std::int64_t states, std::int64_t max_new_tokens,
                           const routing::ObjectiveOptions& options, std::uint64_t seed) {
  const engine::Sampling sampling{.n = 1, .decoding = {}, .max_new_tokens = max_new_tokens, .seed = seed};
  const std::int32_t k = std::min(options.k, base.real_ids());
  rollout_ = base.generate(prompts, sampling, {.k = k, .hidden = base.capabilities().hidden_states});
  engine::add_teachers(rollout_, prompts);
  engine::ScoreOptions scoring;
  scoring.k = k;
  const Scores scores = engine::score_rollout(base, teachers, rollout_, scoring);

  const StateBatch batch = state_batch_of(rollout_, scores, base.real_ids());
  routing::ObjectiveOptions plain;  // the support and the teacher's shares there; no pair is used
  plain.k = k;
  const Routes routes = routing::route_states(batch, plain, seed, 1, /*with_support=*/true);
  const Support& support = routes.support;

  std::vector<std::size_t> usable;
  for (std::size_t n = 0; n < routes.validity_N.size(); ++n)
    if (routes.validity_N[n] == Validity::kValid) usable.push_back(n);
  if (std::ssize(usable) < states)
    throw UserError(
        "mismatch bank: the answers to {} prompts have {} states; expected at least {}, try more prompts",
        prompts.size(), usable.size(), states);
  for (const std::size_t i : choose_states(usable.size(), static_cast<std::size_t>(states), seed))
    states_S_.push_back(usable[i]);
  const auto size_of = [&](std::size_t n) { return support.offsets_N1[n + 1] - support.offsets_N1[n]; };
  for (const std::size_t n : states_S_) width_ = std::max(width_, size_of(n));
  support_ids_NW_.assign(static_cast<std::size_t>(rollout_.states() * width_), -1);
  p_teacher_SW_.assign(states_S_.size() * static_cast<std::size_t>(width_), 0);
  for (std::size_t s = 0; s < states_S_.size(); ++s) {
    const std::size_t n = states_S_[s];
    for (std::int64_t i = 0; i < size_of(n); ++i) {
      const auto at = static_cast<std::size_t>(support.offsets_N1[n] + i);
      const auto column = static_cast<std::size_t>(i), width = static_cast<std::size_t>(width_);
      support_ids_NW_[n * width + column] = support.ids_L[at];
      p_teacher_SW_[s * width + column] = static_cast<double>(support.p_teacher_L[at]);
    }
  }
}

double MismatchBank::mass(engine::Engine& student) const {
  const engine::StateValues values =
      student.score(rollout_, {.k = 0, .gather_ids_NG = support_ids_NW_, .gather_columns = width_});
  for (const std::size_t n : states_S_) {
    const Validity validity = values.validity_N[n];
    if (validity == Validity::kTruncatedScores || validity == Validity::kMisaligned)
      throw UserError("mismatch bank: the answer of engine {} to token {} is {}; expected its values",
                      student.name(), rollout_.id_N[n], name_of(validity));
  }
  const auto width = static_cast<std::size_t>(width_);
  double total = 0;
  for (std::size_t s = 0; s < states_S_.size(); ++s) {
    const float* const logits = values.gathered_NG.data() + states_S_[s] * width;
    const std::int32_t* const ids = support_ids_NW_.data() + states_S_[s] * width;
    double top = -INFINITY, sum = 0, distance = 0;
    for (std::size_t i = 0; i < width && ids[i] >= 0; ++i)
      top = std::max(top, static_cast<double>(logits[i]));
    for (std::size_t i = 0; i < width && ids[i] >= 0; ++i)
      sum += std::exp(static_cast<double>(logits[i]) - top);
    for (std::size_t i = 0; i < width && ids[i] >= 0; ++i)
      distance +=
          std::abs(std::exp(static_cast<double>(logits[i]) - top) / sum - p_teacher_SW_[s * width + i]);
    total += distance / 2;
  }
  return total / static_cast<double>(states_S_.size());
}

}  // namespace routeopd::probe
