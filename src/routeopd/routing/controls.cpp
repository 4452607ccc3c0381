// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/controls.h"

#include <algorithm>
#include <cmath>

#include "routeopd/routing/reference_sampling.h"

namespace routeopd::routing {
namespace {

// The position of `id` in U, or n.
std::size_t position_in(const UnionState& state, std::int32_t id) {
  const auto end = state.ids.begin() + static_cast<std::ptrdiff_t>(state.n);
  const auto at = std::lower_bound(state.ids.begin(), end, id);
  return at != end && *at == id ? static_cast<std::size_t>(at - state.ids.begin()) : state.n;
}

}  // namespace

void Controls::begin_state(const UnionState& state, std::span<const std::int32_t> pool_ids,
                           std::span<const float> student_at_pool, const ObjectiveOptions& options) {
  state_ = &state;
  options_ = &options;
  candidates_.clear();
  const bool ranked = options.ranks_destinations();
  const bool neutral = options.destination == Destination::kRankMatchedNeutral;
  if (ranked || options.destination == Destination::kUniformDeficit) {
    for (std::size_t i = 0; i < state.n; ++i) {
      const std::int32_t deficit_position = state.deficit[i] > 0 ? static_cast<std::int32_t>(i) : -1;
      if (ranked || deficit_position >= 0) {
        const bool kept_out = ranked && (deficit_position >= 0 || (neutral && state.excess[i] > 0));
        candidates_.push_back({state.ids[i], state.student_logits[i], deficit_position, kept_out});
      }
    }
  }
  if (options.needs_pool()) {
    for (std::size_t i = 0; i < pool_ids.size(); ++i) {
      if (pool_ids[i] < 0 || !std::isfinite(student_at_pool[i])) continue;
      const std::size_t at = position_in(state, pool_ids[i]);
      const bool in_u = at < state.n;
      if (in_u && (ranked || state.deficit[at] > 0)) continue;
      candidates_.push_back({pool_ids[i], student_at_pool[i], -1});
    }
  }
  if (ranked) {
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& left, const Candidate& right) {
      return left.student_logit != right.student_logit ? left.student_logit > right.student_logit
                                                       : left.id < right.id;
    });
    rank_of_.assign(state.n, 0);
    for (std::size_t rank = 0; rank < candidates_.size(); ++rank) {
      const std::size_t at = position_in(state, candidates_[rank].id);
      if (at < state.n) rank_of_[at] = rank;
    }
  }
}

ControlledDestination Controls::uniform_over(std::span<const Candidate> among, float u) const {
  if (among.empty()) return {};
  // Below the size: u is at most 1 - 2^-24, and the product is exact in double precision.
  const auto index = static_cast<std::size_t>(static_cast<double>(u) * static_cast<double>(among.size()));
  const Candidate& chosen = among[index];
  return {chosen.id, chosen.student_logit, chosen.deficit_position};
}

ControlledDestination Controls::at_position(std::size_t position) const {
  return {state_->ids[position], state_->student_logits[position], static_cast<std::int32_t>(position)};
}

ControlledDestination Controls::choose(std::size_t a, std::size_t b, float u) {
  const std::int32_t source = state_->ids[a];
  switch (options_->destination) {
    case Destination::kTeacherDeficit:
      return at_position(b);
    case Destination::kUniformDeficit:
      return uniform_over(candidates_, u);
    case Destination::kStudentProportional: {  // p_S on U without a
      double total = 0;
      for (std::size_t i = 0; i < state_->n; ++i)
        total += i == a ? 0.0 : static_cast<double>(state_->p_student[i]);
      double cumulative = 0;
      std::size_t chosen = state_->n;
      for (std::size_t i = 0; i < state_->n; ++i) {
        if (i == a || state_->p_student[i] <= 0) continue;
        cumulative += static_cast<double>(state_->p_student[i]);
        chosen = i;
        if (cumulative > static_cast<double>(u) * total) break;
      }
      if (chosen == state_->n) return {};
      return at_position(chosen);
    }
    case Destination::kRandomBackground:
      among_.clear();
      for (const Candidate& candidate : candidates_) {
        if (candidate.id != source) among_.push_back(candidate);
      }
      return uniform_over(among_, u);
    case Destination::kRankMatched:
    case Destination::kRankMatchedNeutral: {  // walk outwards from b's rank, the lower rank first
      among_.clear();
      const auto wanted = static_cast<std::size_t>(options_->rank_window);
      const std::size_t rank = rank_of_[b];
      for (std::size_t step = 1; among_.size() < wanted && (step <= rank || rank + step < candidates_.size());
           ++step) {
        const auto take = [&](const Candidate& candidate) {
          if (!candidate.kept_out && candidate.id != source && among_.size() < wanted)
            among_.push_back(candidate);
        };
        if (step <= rank) take(candidates_[rank - step]);
        if (rank + step < candidates_.size()) take(candidates_[rank + step]);
      }
      return uniform_over(among_, u);
    }
  }
  return {};
}

std::vector<std::int32_t> background_pools_NP(const Rollout& rollout, std::int32_t real_ids,
                                              std::uint64_t seed) {
  std::vector<std::int32_t> pools_NP;
  const auto k = static_cast<std::ptrdiff_t>(rollout.columns);
  for (std::size_t n = 0; n < rollout.id_N.size(); ++n) {
    const auto row = rollout.top_ids_NK.begin() + static_cast<std::ptrdiff_t>(n) * k;
    reference::Ids pool = reference::background_pool({row, row + k}, real_ids, seed, rollout.address_N[n]);
    pool.resize(kPoolDraws, -1);
    pools_NP.insert(pools_NP.end(), pool.begin(), pool.end());
  }
  return pools_NP;
}

}  // namespace routeopd::routing
