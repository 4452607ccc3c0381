// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/explain.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "routeopd/base/error.h"
#include "routeopd/engine/score_rollout.h"
#include "routeopd/routing/controls.h"
#include "routeopd/routing/reference.h"
#include "routeopd/routing/reference_divergences.h"
#include "routeopd/routing/reference_sampling.h"

namespace routeopd::probe {
namespace {

namespace reference = routing::reference;
using reference::Transport;
using reference::Values;
using routing::ObjectiveOptions;

// Ids of one model over all states; both models' ids and logits there are then about 1.5 GB.
constexpr std::int64_t kMostLogits = 1 << 26;

// U of one state with both models' logits there.
struct Union {
  reference::Ids ids;
  Values student, teacher;
};

Union union_at(const Rollout& rollout, const Scores& scores, std::size_t state) {
  std::map<std::int32_t, std::pair<float, float>> logits;
  const auto k = static_cast<std::size_t>(rollout.columns), j = static_cast<std::size_t>(scores.columns);
  for (std::size_t i = state * k; i < (state + 1) * k; ++i)
    logits[rollout.top_ids_NK[i]] = {rollout.top_logits_NK[i], scores.teacher_at_student_NK[i]};
  // Ids of both lists keep what the forwards said of them, as routing does: a gather sums in another order.
  for (std::size_t i = state * j; i < (state + 1) * j; ++i)
    logits.emplace(scores.teacher_ids_NJ[i],
                   std::pair(scores.student_at_teacher_NJ[i], scores.teacher_logits_NJ[i]));
  Union all;
  for (const auto& [id, pair] : logits) {
    const auto& [student, teacher] = pair;
    if (id < 0 || (std::isinf(student) && student < 0)) continue;  // padding; what no finite step can move
    all.ids.push_back(id);
    all.student.push_back(static_cast<double>(student));
    all.teacher.push_back(static_cast<double>(teacher));
  }
  return all;
}

// Why the state takes no part, as routing says it; kValid where it does.
Validity validity_of(const Union& all, Validity upstream) {
  if (upstream != Validity::kValid) return upstream;
  const auto wrong = [](double z) { return std::isnan(z) || (std::isinf(z) && z > 0); };
  if (std::any_of(all.student.begin(), all.student.end(), wrong) ||
      std::any_of(all.teacher.begin(), all.teacher.end(), wrong))
    return Validity::kNonFinite;
  if (all.ids.empty()) return Validity::kEmptySupport;
  return std::isfinite(reference::log_sum_exp(all.teacher)) ? Validity::kValid : Validity::kNonFinite;
}

reference::Pool pool_at(const Scores& scores, std::size_t state) {
  reference::Pool pool;
  const auto columns = static_cast<std::size_t>(scores.pool_columns);
  for (std::size_t i = state * columns; i < (state + 1) * columns; ++i) {
    if (scores.pool_ids_NP[i] < 0) continue;
    pool.ids.push_back(scores.pool_ids_NP[i]);
    pool.student_logits.push_back(static_cast<double>(scores.student_at_pool_NP[i]));
  }
  return pool;
}

// The places of the largest values, largest first, the lower place among equals; zeros are skipped.
std::vector<std::size_t> largest(const Values& values, std::size_t most) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] > 0) places.push_back(i);
  }
  std::stable_sort(places.begin(), places.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  places.resize(std::min(places.size(), most));
  return places;
}

ExplainedPair explained_pair(const Transport& state, const reference::Pair& pair) {
  ExplainedPair row;
  row.source = pair.source;
  row.destination = pair.destination;
  row.target = pair.target;
  const auto place = [&](std::int32_t id) -> std::optional<std::size_t> {
    const auto at = std::lower_bound(state.ids.begin(), state.ids.end(), id);
    if (at == state.ids.end() || *at != id) return std::nullopt;
    return static_cast<std::size_t>(at - state.ids.begin());
  };
  const auto a = place(pair.source), b = place(pair.destination);
  if (a) row.source_before = state.p_student[*a];
  if (b) row.destination_before = state.p_student[*b];
  if (!a || !b) return row;
  row.coupling = state.q_minus[*a] * state.q_plus[*b];
  const Values after = reference::pair_isolated_step(state, pair);
  row.source_after = after[*a];
  row.destination_after = after[*b];
  return row;
}

// The most likely pairs of the coupling. The n-th source by q- is in no pair that n - 1 others do not
// precede, so the first few of each side are enough.
std::vector<ExplainedPair> likely_pairs(const Transport& state, const ObjectiveOptions& options) {
  std::vector<std::pair<std::size_t, std::size_t>> places;
  for (const std::size_t a : largest(state.q_minus, kExplainedPairs)) {
    for (const std::size_t b : largest(state.q_plus, kExplainedPairs)) places.emplace_back(a, b);
  }
  const auto coupling = [&](const auto& pair) {
    return state.q_minus[pair.first] * state.q_plus[pair.second];
  };
  std::stable_sort(places.begin(), places.end(),
                   [&](const auto& x, const auto& y) { return coupling(x) > coupling(y); });
  places.resize(std::min(places.size(), kExplainedPairs));
  std::vector<ExplainedPair> rows;
  for (const auto& [a, b] : places) {
    const std::int32_t source = state.ids[a], destination = state.ids[b];
    rows.push_back(explained_pair(
        state, {source, destination, reference::pair_target(state, source, destination, options)}));
  }
  return rows;
}

// The ids with the most mismatch, and all that the pairs name.
std::vector<ExplainedId> explained_ids(const Transport& state, const Values& after,
                                       const ExplainedToken& token) {
  Values mismatch;
  for (std::size_t i = 0; i < state.ids.size(); ++i) mismatch.push_back(state.excess[i] + state.deficit[i]);
  std::vector<std::size_t> order(state.ids.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return mismatch[a] > mismatch[b]; });
  std::set<std::int32_t> named;
  for (const auto* pairs : {&token.pairs, &token.drawn}) {
    for (const ExplainedPair& pair : *pairs) named.insert({pair.source, pair.destination});
  }
  std::vector<ExplainedId> rows;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const std::size_t i = order[rank];
    if (rank >= kExplainedIds && !named.contains(state.ids[i])) continue;
    ExplainedId& row = rows.emplace_back();
    row.id = state.ids[i];
    row.p_student = state.p_student[i];
    row.p_teacher = state.p_teacher[i];
    row.potential = state.potential[i];
    row.p_after = after[i];
    if (state.bounded.empty()) continue;  // the models agree on U
    row.q_minus = state.q_minus[i];
    row.q_plus = state.q_plus[i];
    row.bounded = state.bounded[i];
  }
  return rows;
}

void explain_state(const Transport& state, const reference::Pool& pool, const ObjectiveOptions& options,
                   std::uint64_t seed, const StateAddress& address, ExplainedToken& token) {
  token.mass = token.mass_after = state.mass;
  token.student_mass_after = token.student_mass;
  token.support = std::ssize(state.ids);
  token.n_deficit = state.n_deficit;
  for (const double e : state.excess) token.n_excess += e > 0 ? 1 : 0;
  token.concentration = state.concentration;
  token.budget = state.budget;
  std::vector<reference::Pair> drawn;
  if (options.pairs == routing::Pairs::kSample)
    drawn = reference::sample_pairs(state, pool, options, seed, address);
  if (!state.routed) {
    token.not_routed =
        fmt::format("the mass {:.3g} is not above delta_m = {:g}", state.mass, options.delta_m);
  } else if (drawn.empty() && options.pairs == routing::Pairs::kSample) {
    token.not_routed = "the destination control finds no id to move to";
  }
  if (!token.not_routed.empty()) {
    token.ids = explained_ids(state, state.p_student, token);
    return;
  }
  token.pairs = likely_pairs(state, options);
  for (const reference::Pair& pair : drawn) token.drawn.push_back(explained_pair(state, pair));
  for (auto* rows : {&token.pairs, &token.drawn}) {
    for (ExplainedPair& row : *rows) {
      row.draws = static_cast<std::int32_t>(
          std::count_if(drawn.begin(), drawn.end(), [&](const reference::Pair& pair) {
            return pair.source == row.source && pair.destination == row.destination;
          }));
    }
  }
  const Values after = reference::potential_wide_step(state);
  token.mass_after = reference::mass_after(state, after);
  token.student_mass_after = reference::retained_after(state, token.student_mass);
  token.ids = explained_ids(state, after, token);
}

engine::ScoreOptions scoring_of(const Rollout& rollout, const ObjectiveOptions& options, std::uint64_t seed,
                                std::int32_t real_ids) {
  engine::ScoreOptions scoring;
  scoring.k = explained_columns(options, real_ids);
  if (!options.needs_pool() || options.k == routing::kFullSupport) return scoring;
  scoring.pool_columns = routing::kPoolDraws;
  scoring.pool_ids_NP = routing::background_pools_NP(rollout, real_ids, seed);
  return scoring;
}

}  // namespace

void check_explainable(const ObjectiveOptions& options) {
  if (options.loss != routing::Loss::kRouted)
    throw UserError("arm: {} moves no pairs; expected a routed arm, such as routeopd", options.arm);
  if (options.side != routing::Side::kPair)
    throw UserError(
        "side: expected pair, got one side alone (arm {}), which moves one token and no pair; "
        "`routeopd route` shows such a step",
        options.arm);
}

std::int32_t explained_columns(const ObjectiveOptions& options, std::int32_t real_ids) {
  return std::min(options.k, real_ids);
}

Rollout given_rollout(const std::vector<std::int32_t>& prompt_ids,
                      const std::vector<std::int32_t>& response_ids) {
  Rollout rollout;
  rollout.prompt_ids_P = {prompt_ids};
  rollout.responses_B = {{.prompt = 0, .sample = 0, .first_state = 0, .length = std::ssize(response_ids)}};
  rollout.id_N = response_ids;
  rollout.logprob_N.resize(response_ids.size());
  for (std::size_t n = 0; n < response_ids.size(); ++n)
    rollout.address_N.push_back({.position = static_cast<std::uint32_t>(n)});
  return rollout;
}

std::vector<ExplainedToken> explain_rollout(engine::Engine& student, engine::Engine& teacher,
                                            Rollout& rollout, const ObjectiveOptions& options,
                                            std::uint64_t seed) {
  check_explainable(options);
  const std::int32_t k = explained_columns(options, student.real_ids());
  if (rollout.states() * k > kMostLogits)
    throw UserError(
        "k: {} tokens with {} ids each are too many to explain; try a smaller k or a shorter response",
        rollout.states(), k);
  std::vector<Validity> read_N(rollout.id_N.size(), Validity::kValid);
  if (rollout.logsumexp_N.empty()) read_N = engine::rescore(student, rollout, k);
  const Scores scores = engine::score_rollout(student, teacher, rollout,
                                              scoring_of(rollout, options, seed, student.real_ids()));
  std::vector<ExplainedToken> tokens(rollout.id_N.size());
  for (std::size_t n = 0; n < tokens.size(); ++n) {
    ExplainedToken& token = tokens[n];
    token.id = rollout.id_N[n];
    const Union all = union_at(rollout, scores, n);
    const Validity validity = validity_of(all, first_reason(read_N[n], scores.validity_N[n]));
    if (validity == Validity::kNonFinite)
      throw UserError(
          "explain: a model gives NaN or infinite logits at token {} of the response; are its weights whole?",
          n);
    if (validity != Validity::kValid) {
      token.not_routed = fmt::format("the state cannot be used: {}", name_of(validity));
      continue;
    }
    token.pi_student = std::exp(static_cast<double>(rollout.logprob_N[n]));
    token.pi_teacher = std::exp(static_cast<double>(scores.teacher_logprob_N[n]));
    const auto retained = [](const Values& logits, float logsumexp) {
      return std::min(1.0, std::exp(reference::log_sum_exp(logits) - static_cast<double>(logsumexp)));
    };
    token.student_mass = retained(all.student, rollout.logsumexp_N[n]);
    token.teacher_mass = retained(all.teacher, scores.teacher_logsumexp_N[n]);
    explain_state(reference::transport(all.ids, all.student, all.teacher, options), pool_at(scores, n),
                  options, seed, rollout.address_N[n], token);
  }
  return tokens;
}

}  // namespace routeopd::probe
