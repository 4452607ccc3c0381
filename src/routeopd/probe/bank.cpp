// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/bank.h"

#include <algorithm>
#include <utility>

#include "routeopd/base/error.h"
#include "routeopd/base/philox.h"
#include "routeopd/probe/state_scores.h"

namespace routeopd::probe {
namespace {

// The responses that have chosen states, each up to its last one, and the new rows of those states.
void keep_chosen(const Rollout& whole, const std::vector<std::size_t>& chosen, Bank& bank) {
  Rollout& kept = bank.rollout;
  auto next = chosen.begin();
  for (const Response& response : whole.responses_B) {
    const auto first = static_cast<std::size_t>(response.first_state);
    const auto end = first + static_cast<std::size_t>(response.length);
    const auto last = std::lower_bound(next, chosen.end(), end);
    if (next == last) continue;
    Response part = response;
    part.prompt = static_cast<std::int32_t>(kept.prompt_ids_P.size());
    part.first_state = kept.states();
    part.length = static_cast<std::int64_t>(*(last - 1) + 1 - first);
    kept.prompt_ids_P.push_back(whole.prompt_ids_P[static_cast<std::size_t>(response.prompt)]);
    for (; next != last; ++next) {
      bank.states_S.push_back(static_cast<std::size_t>(part.first_state) + *next - first);
      bank.sequence_S.push_back(static_cast<std::int32_t>(kept.responses_B.size()));
    }
    for (std::size_t n = first; n < first + static_cast<std::size_t>(part.length); ++n) {
      kept.id_N.push_back(whole.id_N[n]);
      kept.address_N.push_back(whole.address_N[n]);
    }
    kept.responses_B.push_back(part);
  }
  kept.logprob_N.assign(kept.id_N.size(), 0.0F);
}

}  // namespace

void check_bank_objective(const routing::ObjectiveOptions& objective) {
  routing::check_objective(objective);
  if (objective.loss != routing::Loss::kRouted || objective.pairs != routing::Pairs::kSample ||
      objective.side != routing::Side::kPair || objective.target != routing::Target::kShared)
    throw UserError(
        "bank: expected an objective that draws pairs with shared targets, such as routeopd, got {}",
        objective.arm);
  if (objective.k == routing::kFullSupport)
    throw UserError("bank: expected a number for k; the support of every state is kept");
}

std::vector<std::size_t> choose_states(std::size_t count, std::size_t wanted, std::uint64_t seed) {
  std::vector<std::pair<std::uint32_t, std::size_t>> keys;
  for (std::size_t i = 0; i < count; ++i) {
    const StateAddress at{.position = static_cast<std::uint32_t>(i)};
    keys.emplace_back(addressed_words(seed, Purpose::kProbe, at, 0)[0], i);
  }
  std::sort(keys.begin(), keys.end());
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < wanted; ++i) chosen.push_back(keys[i].second);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

Rollout visit_states(engine::Engine& student, std::span<const Prompt> prompts, const BankOptions& options) {
  check_bank_objective(options.objective);
  const engine::Sampling sampling{
      .n = 1, .decoding = {}, .max_new_tokens = options.max_new_tokens, .seed = options.seed};
  return student.generate(prompts, sampling, {});
}

Bank make_bank(const Rollout& visited, const model::Model& student, const model::Model& teacher,
               std::int32_t real_ids, const BankOptions& options) {
  check_bank_objective(options.objective);
  Bank bank;
  bank.real_ids = real_ids;
  bank.seed = options.seed;
  bank.objective = options.objective;
  bank.objective.k = std::min(options.objective.k, real_ids);
  if (visited.states() < options.states)
    throw UserError(
        "bank: the answers to {} prompts have {} states; expected at least {}, try more prompts or fewer "
        "states",
        visited.prompt_ids_P.size(), visited.states(), options.states);
  keep_chosen(visited,
              choose_states(static_cast<std::size_t>(visited.states()),
                            static_cast<std::size_t>(options.states), options.seed),
              bank);
  bank.teacher_hidden_SX = hidden_at(teacher, bank.rollout, bank.states_S);
  const at::Tensor hidden_SH = hidden_at(student, bank.rollout, bank.states_S);
  const ScoringHeads heads(student.head_VH, teacher.head_VH, real_ids);
  bank.frozen = freeze(bank, hidden_SH, heads, student.head_VH, teacher.head_VH);
  return bank;
}

}  // namespace routeopd::probe
