// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/reference_sampling.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>

namespace routeopd::routing::reference {
namespace {

// The smallest i whose cumulative weight exceeds u times the total: never an i of zero weight.
std::size_t inverse_distribution(std::span<const double> weights, double u) {
  const double wanted = u * std::accumulate(weights.begin(), weights.end(), 0.0);
  double cumulative = 0;
  std::size_t last_positive = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    cumulative += weights[i];
    if (cumulative > wanted) return i;
    if (weights[i] > 0) last_positive = i;
  }
  return last_positive;
}

std::size_t uniform_index(std::size_t count, double u) {
  return std::min(static_cast<std::size_t>(u * static_cast<double>(count)), count - 1);
}

// U and the pool together, as the rank-matched controls see them.
struct Candidate {
  std::int32_t id;
  double student_logit;
  bool in_deficit, in_excess;
};

std::vector<Candidate> candidates(const Transport& state, const Pool& pool) {
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < state.ids.size(); ++i) {
    all.push_back({state.ids[i], state.student_logits[i], state.deficit[i] > 0, state.excess[i] > 0});
  }
  for (std::size_t i = 0; i < pool.ids.size(); ++i) {
    const bool in_u = std::binary_search(state.ids.begin(), state.ids.end(), pool.ids[i]);
    if (!in_u && std::isfinite(pool.student_logits[i]))
      all.push_back({pool.ids[i], pool.student_logits[i], false, false});
  }
  return all;
}

// The ids of (U + pool) outside D, not a, nearest to b in pi_old-rank there; ties: lower rank. The neutral
// control leaves out excess ids as well; ranks count them all the same.
Ids rank_neighbours(const Transport& state, const Pool& pool, std::int32_t a, std::int32_t b,
                    const ObjectiveOptions& options) {
  const bool neutral = options.destination == Destination::kRankMatchedNeutral;
  std::vector<Candidate> ranked = candidates(state, pool);
  std::sort(ranked.begin(), ranked.end(), [](const Candidate& left, const Candidate& right) {
    return std::tuple(-left.student_logit, left.id) < std::tuple(-right.student_logit, right.id);
  });
  long rank_of_b = 0;
  for (std::size_t rank = 0; rank < ranked.size(); ++rank) {
    if (ranked[rank].id == b) rank_of_b = static_cast<long>(rank);
  }
  std::vector<std::tuple<long, long, std::int32_t>> near;  // distance, rank, id
  for (std::size_t rank = 0; rank < ranked.size(); ++rank) {
    if (ranked[rank].in_deficit || ranked[rank].id == a || (neutral && ranked[rank].in_excess)) continue;
    near.emplace_back(std::abs(static_cast<long>(rank) - rank_of_b), static_cast<long>(rank),
                      ranked[rank].id);
  }
  std::sort(near.begin(), near.end());
  Ids ids;
  for (const auto& [distance, rank, id] : near) {
    if (ids.size() < static_cast<std::size_t>(options.rank_window)) ids.push_back(id);
  }
  return ids;
}

// The pool without the ids that turned out to be in D, without a, and without what the student gives no mass.
Ids background(const Transport& state, const Pool& pool, std::int32_t a) {
  Ids ids;
  for (std::size_t i = 0; i < pool.ids.size(); ++i) {
    const auto at = std::lower_bound(state.ids.begin(), state.ids.end(), pool.ids[i]);
    const bool in_u = at != state.ids.end() && *at == pool.ids[i];
    const bool in_deficit = in_u && state.deficit[static_cast<std::size_t>(at - state.ids.begin())] > 0;
    if (!in_deficit && pool.ids[i] != a && std::isfinite(pool.student_logits[i])) ids.push_back(pool.ids[i]);
  }
  return ids;
}

// b' of a control, or nothing when it has no candidate.
std::optional<std::int32_t> controlled_destination(const Transport& state, const Pool& pool, std::size_t a,
                                                   std::size_t b, const ObjectiveOptions& options, double u) {
  Ids among;
  switch (options.destination) {
    case Destination::kTeacherDeficit:
      return state.ids[b];
    case Destination::kUniformDeficit:
      for (std::size_t i = 0; i < state.ids.size(); ++i) {
        if (state.deficit[i] > 0) among.push_back(state.ids[i]);
      }
      break;
    case Destination::kStudentProportional: {
      Values weights = state.p_student;
      weights[a] = 0;
      if (std::accumulate(weights.begin(), weights.end(), 0.0) <= 0) return std::nullopt;
      return state.ids[inverse_distribution(weights, u)];
    }
    case Destination::kRandomBackground:
      among = background(state, pool, state.ids[a]);
      break;
    case Destination::kRankMatched:
    case Destination::kRankMatchedNeutral:
      among = rank_neighbours(state, pool, state.ids[a], state.ids[b], options);
      break;
  }
  if (among.empty()) return std::nullopt;
  return among[uniform_index(among.size(), u)];
}

}  // namespace

Ids background_pool(const Ids& student_top_k, std::int32_t real_ids, std::uint64_t seed,
                    const StateAddress& address) {
  Ids pool;
  for (std::uint32_t draw = 0; draw < kPoolDraws; ++draw) {
    const PhiloxBlock words = addressed_words(seed, Purpose::kBackgroundPool, address, draw);
    const auto id =
        static_cast<std::int32_t>(uniform_index(static_cast<std::size_t>(real_ids), unit_uniform(words[0])));
    const bool seen = std::find(pool.begin(), pool.end(), id) != pool.end();
    const bool in_top_k = std::find(student_top_k.begin(), student_top_k.end(), id) != student_top_k.end();
    if (!seen && !in_top_k) pool.push_back(id);
  }
  return pool;
}

std::vector<Pair> sample_pairs(const Transport& state, const Pool& pool, const ObjectiveOptions& options,
                               std::uint64_t seed, const StateAddress& address) {
  std::vector<Pair> pairs;
  if (!state.routed) return pairs;
  for (std::int32_t i = 0; i < options.m; ++i) {
    const PhiloxBlock words =
        addressed_words(seed, Purpose::kRoutePairs, address, static_cast<std::uint32_t>(i));
    const std::size_t a = inverse_distribution(state.excess, unit_uniform(words[0]));
    const std::size_t b = inverse_distribution(state.deficit, unit_uniform(words[1]));
    const auto destination = controlled_destination(state, pool, a, b, options, unit_uniform(words[2]));
    if (!destination) return {};
    pairs.push_back({state.ids[a], *destination, pair_target(state, state.ids[a], state.ids[b], options)});
  }
  return pairs;
}

}  // namespace routeopd::routing::reference
