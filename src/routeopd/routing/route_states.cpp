// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/route_states.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "routeopd/base/parallel.h"
#include "routeopd/routing/controls.h"
#include "routeopd/routing/pair_sampler.h"
#include "routeopd/routing/union_builder.h"
#include "routeopd/routing/union_kernel.h"
#include "routeopd/routing/union_state.h"

namespace routeopd::routing {
namespace {

// States that make a thread worth starting (about a microsecond each).
constexpr std::int64_t kStatesPerThread = 256;

// Routes a range of states. One per thread: it owns that thread's working memory and its part of the support.
class RangeRouter {
 public:
  RangeRouter(const StateBatch& batch, const ObjectiveOptions& options, std::uint64_t seed, bool with_support,
              Routes& routes)
      : batch_(batch),
        options_(options),
        seed_(seed),
        with_support_(with_support),
        routes_(routes),
        log_delta_p_(static_cast<float>(std::log(options.delta_p))) {
    state_.reserve(union_bound(batch));
  }

  void route(std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) {
      const auto n = static_cast<std::size_t>(at);
      Validity validity = batch_.validity_N ? batch_.validity_N[at] : Validity::kValid;
      if (validity == Validity::kValid) validity = build_union(batch_, at, state_);
      routes_.validity_N[n] = validity;
      if (validity == Validity::kValid) route_one(at);
      if (with_support_) support_.offsets_N1.push_back(static_cast<std::int64_t>(support_.ids_L.size()));
    }
  }

  Support& support() { return support_; }

 private:
  void route_one(std::int64_t at) {
    const auto n = static_cast<std::size_t>(at);
    union_imbalance(state_, log_delta_p_);
    routes_.mass_N[n] = state_.mass;
    routes_.student_mass_N[n] = retained_mass(state_.student_lse, batch_.student_lse_N, at);
    routes_.teacher_mass_N[n] = retained_mass(state_.teacher_lse, batch_.teacher_lse_N, at);

    const bool agree = state_.total_excess <= 0 || state_.total_deficit <= 0;
    bool routed = !agree && static_cast<double>(state_.mass) > options_.delta_m;
    const float concentration = agree ? 0 : demand_concentration();
    const float budget = agree ? 0 : transport_budget(concentration);
    if (routed && options_.pairs == Pairs::kSample && options_.loss == Loss::kRouted)
      routed = sample(at, budget);
    if (with_support_) append_support(agree, budget);
    if (!routed) return;

    routes_.routed_N[n] = 1;
    routes_.weight_N[n] = options_.weight == Weight::kMass ? state_.mass : 1;
    routes_.concentration_N[n] = concentration;
    routes_.budget_N[n] = budget;
    routes_.n_deficit_N[n] = state_.n_deficit;
    routes_.saturated_N[n] = static_cast<float>(count_saturated(state_.potential.data(), state_.n, budget)) /
                             static_cast<float>(state_.n);
  }

  static float retained_mass(double lse_on_union, const float* lse_N, std::int64_t at) {
    if (lse_N == nullptr) return std::numeric_limits<float>::quiet_NaN();
    return static_cast<float>(std::exp(lse_on_union - static_cast<double>(lse_N[at])));
  }

  float demand_concentration() const {  // eq. demand-concentration
    if (state_.n_deficit == 1) return 1;
    const auto count = static_cast<float>(state_.n_deficit);
    const float squares = state_.deficit_squares / (state_.total_deficit * state_.total_deficit);
    return std::clamp((count * squares - 1) / (count - 1), 0.0F, 1.0F);
  }

  float transport_budget(float concentration) const {  // eq. transport-budget
    const double spread = (options_.b_max - options_.b_min) * static_cast<double>(concentration);
    switch (options_.budget.rule) {
      case BudgetRule::kAdaptive:
        return static_cast<float>(options_.b_min + spread);
      case BudgetRule::kReversed:
        return static_cast<float>(options_.b_max - spread);
      case BudgetRule::kFixed:
        break;
    }
    return static_cast<float>(options_.budget.fixed);
  }

  // m draws from q- x q+ with their targets. False when a control finds no destination: the state is then not
  // routed.
  bool sample(std::int64_t at, float budget) {
    const auto m = static_cast<std::size_t>(options_.m);
    const auto first = static_cast<std::size_t>(at) * m;
    const bool controlled = options_.destination != Destination::kTeacherDeficit;
    accumulate_marginals(state_);
    sources_.begin(state_.cumulative_excess.data(), state_.n, m);
    destinations_.begin(state_.cumulative_deficit.data(), state_.n, m);
    if (controlled) begin_controls(at);

    drawn_.resize(m);
    moved_.resize(m);
    for (std::size_t i = 0; i < m; ++i) {
      const PhiloxBlock words =
          addressed_words(seed_, Purpose::kRoutePairs, batch_.address_N[at], static_cast<std::uint32_t>(i));
      drawn_[i] = {sources_.draw(unit_uniform(words[0])), destinations_.draw(unit_uniform(words[1]))};
      const auto [a, b] = drawn_[i];
      moved_[i] = controlled ? controls_.choose(a, b, unit_uniform(words[2]))
                             : ControlledDestination{state_.ids[b], state_.student_logits[b],
                                                     static_cast<std::int32_t>(b)};
      if (moved_[i].id < 0) return false;
    }
    write_pairs(at, first, budget);
    routes_.coverage_N[static_cast<std::size_t>(at)] = coverage();
    return true;
  }

  void begin_controls(std::int64_t at) {
    const auto columns = static_cast<std::size_t>(batch_.pool_columns);
    const std::size_t first = static_cast<std::size_t>(at) * columns;
    const std::size_t pool = options_.needs_pool() ? columns : 0;
    controls_.begin_state(state_, {batch_.pool_ids_NP + (pool ? first : 0), pool},
                          {batch_.student_at_pool_NP + (pool ? first : 0), pool}, options_);
  }

  void write_pairs(std::int64_t at, std::size_t first, float budget) {
    const std::size_t m = drawn_.size();
    endpoints_.assign((2 * m + kUnionPad - 1) / kUnionPad * kUnionPad, 0);
    for (std::size_t i = 0; i < m; ++i) {
      endpoints_[2 * i] = state_.potential[drawn_[i].first];
      endpoints_[2 * i + 1] = state_.potential[drawn_[i].second];
    }
    if (options_.target == Target::kShared) {
      bounded_endpoints_.resize(endpoints_.size());
      bounded_potentials(endpoints_.data(), 2 * m, budget, bounded_endpoints_.data());
    }
    for (std::size_t i = 0; i < m; ++i) {
      const std::size_t a = drawn_[i].first;
      const float z_source = state_.student_logits[a];
      const float z_destination = moved_[i].student_logit;
      float target = 0;
      float old = z_destination - z_source;
      if (options_.target == Target::kIndependent) {
        target = std::clamp(endpoints_[2 * i + 1] - endpoints_[2 * i], 0.0F, budget);
      } else if (options_.side == Side::kPair) {
        target = bounded_endpoints_[2 * i + 1] - bounded_endpoints_[2 * i];
      } else {
        const bool source = options_.side == Side::kSource;
        target = bounded_endpoints_[2 * i + (source ? 0 : 1)];
        old = (source ? z_source : z_destination) - batch_.student_lse_N[at];
      }
      routes_.source_NM[first + i] = state_.ids[a];
      routes_.destination_NM[first + i] = moved_[i].id;
      routes_.target_NM[first + i] = target;
      routes_.old_NM[first + i] = old;
    }
  }

  // Share of q+ on the distinct destinations that the pairs use; an id outside D counts nothing.
  float coverage() {
    float covered = 0;
    counted_.clear();
    for (const ControlledDestination& destination : moved_) {
      if (destination.position < 0) continue;
      float& deficit = state_.deficit[static_cast<std::size_t>(destination.position)];
      covered += deficit;
      counted_.push_back({&deficit, deficit});
      deficit = 0;  // counted once
    }
    // Backwards: of a destination that came twice, the first entry holds its deficit.
    for (auto counted = counted_.rbegin(); counted != counted_.rend(); ++counted)
      *counted->first = counted->second;
    return covered / state_.total_deficit;
  }

  void append_support(bool agree, float budget) {
    const auto n = static_cast<std::ptrdiff_t>(state_.n);
    const auto append = [n](auto& to, const auto& from) {
      to.insert(to.end(), from.begin(), from.begin() + n);
    };
    append(support_.ids_L, state_.ids);
    append(support_.old_logits_L, state_.student_logits);
    append(support_.p_student_L, state_.p_student);
    append(support_.p_teacher_L, state_.p_teacher);
    append(support_.potential_L, state_.potential);
    if (agree) {
      std::fill_n(state_.bounded.begin(), n, 0.0F);
    } else {
      bounded_potentials(state_.potential.data(), state_.n, budget, state_.bounded.data());
    }
    append(support_.bounded_L, state_.bounded);
    for (std::size_t i = 0; i < state_.n; ++i) {
      support_.log_p_teacher_L.push_back(
          static_cast<float>(static_cast<double>(state_.teacher_logits[i]) - state_.teacher_lse));
    }
  }

  const StateBatch& batch_;
  const ObjectiveOptions& options_;
  const std::uint64_t seed_;
  const bool with_support_;
  Routes& routes_;
  const float log_delta_p_;

  UnionState state_;
  MarginalSampler sources_, destinations_;
  Controls controls_;
  std::vector<std::pair<std::size_t, std::size_t>> drawn_;  // positions in U
  std::vector<ControlledDestination> moved_;
  std::vector<float> endpoints_, bounded_endpoints_;
  std::vector<std::pair<float*, float>> counted_;
  Support support_;
};

void append(Support& all, const Support& part) {
  const auto shift = static_cast<std::int64_t>(all.ids_L.size());
  for (std::size_t i = 1; i < part.offsets_N1.size(); ++i)
    all.offsets_N1.push_back(part.offsets_N1[i] + shift);
  const auto join = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  join(all.ids_L, part.ids_L);
  join(all.old_logits_L, part.old_logits_L);
  join(all.log_p_teacher_L, part.log_p_teacher_L);
  join(all.p_student_L, part.p_student_L);
  join(all.p_teacher_L, part.p_teacher_L);
  join(all.potential_L, part.potential_L);
  join(all.bounded_L, part.bounded_L);
}

Routes empty_routes(std::int64_t states, std::int32_t pairs) {
  Routes routes;
  routes.states = states;
  routes.pairs = pairs;
  const auto n = static_cast<std::size_t>(states);
  const std::size_t nm = n * static_cast<std::size_t>(pairs);
  routes.source_NM.assign(nm, -1);
  routes.destination_NM.assign(nm, -1);
  routes.target_NM.assign(nm, 0);
  routes.old_NM.assign(nm, 0);
  routes.validity_N.assign(n, Validity::kValid);
  routes.routed_N.assign(n, 0);
  routes.n_deficit_N.assign(n, 0);
  for (auto* values :
       {&routes.weight_N, &routes.mass_N, &routes.concentration_N, &routes.budget_N, &routes.coverage_N,
        &routes.saturated_N, &routes.student_mass_N, &routes.teacher_mass_N}) {
    values->assign(n, 0);
  }
  return routes;
}

}  // namespace

bool needs_support(const ObjectiveOptions& options) {
  return options.loss == Loss::kUnionRkl || options.loss == Loss::kUnionFkl ||
         (options.loss == Loss::kRouted && options.pairs == Pairs::kExact);
}

Routes route_states(const StateBatch& batch, const ObjectiveOptions& options, std::uint64_t seed, int threads,
                    bool with_support) {
  check_objective(options);
  if (options.side != Side::kPair && batch.student_lse_N == nullptr) {
    throw UserError("routing: side = {} needs the student's log-partitions, and the scores have none",
                    options.side == Side::kSource ? "source" : "destination");
  }
  if (options.needs_pool() && batch.pool_ids_NP == nullptr) {
    throw UserError("routing: this destination draws from a background pool, and the scores have none");
  }
  for (std::int64_t at = 0; at < batch.states; ++at) check_address(batch.address_N[at]);
  with_support = with_support || needs_support(options);
  const bool sampled = options.loss == Loss::kRouted && options.pairs == Pairs::kSample;
  Routes routes = empty_routes(batch.states, sampled ? options.m : 0);

  // Parts of fixed bounds, so that each thread's support can be joined in order.
  const int parts =
      static_cast<int>(std::clamp<std::int64_t>(batch.states / kStatesPerThread, 1, std::max(threads, 1)));
  std::vector<Support> supports(static_cast<std::size_t>(parts));
  parallel_ranges(parts, 1, parts, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      RangeRouter router(batch, options, seed, with_support, routes);
      router.route(batch.states * part / parts, batch.states * (part + 1) / parts);
      supports[static_cast<std::size_t>(part)] = std::move(router.support());
    }
  });
  if (with_support) {
    for (const Support& part : supports) append(routes.support, part);
  }
  return routes;
}

}  // namespace routeopd::routing
