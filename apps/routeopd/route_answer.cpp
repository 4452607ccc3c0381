// The answer to one line of `routeopd route`, from the double-precision reference or from the kernels of the
// learner.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "route_line.h"
#include "routeopd/kernels/dense_rows.h"
#include "routeopd/routing/reference.h"
#include "routeopd/routing/reference_divergences.h"
#include "routeopd/routing/reference_sampling.h"
#include "routeopd/routing/route_states.h"
#include "routeopd/routing/token_losses.h"

namespace routeopd::app {
namespace {

namespace reference = routing::reference;
using reference::LossAndGradient;
using reference::Transport;
using reference::Values;
using routing::ObjectiveOptions;
using Floats = std::vector<float>;

// The parts of an answer that depend on the precision.
struct Parts {
  Transport state;
  std::vector<reference::Pair> pairs;
  Values deltas;
  LossAndGradient pair, exact, full_rkl, full_fkl, union_rkl, union_fkl;
  std::optional<LossAndGradient> sampled;
};

Values at_ids(const reference::Ids& ids, const Values& values) {
  Values out;
  for (const std::int32_t id : ids) out.push_back(values[static_cast<std::size_t>(id)]);
  return out;
}

Floats narrowed(const Values& values) {
  return Floats(values.begin(), values.end());
}
Values widened(std::span<const float> values) {
  return Values(values.begin(), values.end());
}

reference::Pool pool_of(const RouteLine& line, const StateAddress& address) {
  reference::Pool pool;
  if (!line.settings.objective.needs_pool()) return pool;
  pool.ids =
      reference::background_pool(reference::top_k(line.student, line.settings.objective.k),
                                 static_cast<std::int32_t>(line.student.size()), line.settings.seed, address);
  pool.student_logits = at_ids(pool.ids, line.student);
  return pool;
}

// The pairs that the line gives, with their targets.
std::vector<reference::Pair> given_pairs(const RouteLine& line, const Transport& state) {
  std::vector<reference::Pair> pairs;
  for (const auto& [source, destination] : *line.pairs) {
    pairs.push_back(
        {source, destination, reference::pair_target(state, source, destination, line.settings.objective)});
  }
  return pairs;
}

Parts parts_in_double(const RouteLine& line, const StateAddress& address) {
  const ObjectiveOptions& options = line.settings.objective;
  Parts parts;
  const reference::Ids ids = reference::support(line.student, line.teacher, options.k);
  const Values teacher = at_ids(ids, line.teacher);
  const Values current = at_ids(ids, line.current);
  if (reference::log_sum_exp(teacher) == -std::numeric_limits<double>::infinity()) {
    throw UserError("the state cannot be used: {} (the teacher is at -inf wherever the student is not)",
                    name_of(Validity::kNonFinite));
  }
  parts.state = reference::transport(ids, at_ids(ids, line.student), teacher, options);
  if (parts.state.routed && options.pairs == routing::Pairs::kSample) {
    parts.pairs = line.pairs ? given_pairs(line, parts.state)
                             : reference::sample_pairs(parts.state, pool_of(line, address), options,
                                                       line.settings.seed, address);
  }
  parts.pair =
      reference::pair_loss(parts.state, parts.pairs, line.student, line.current, options, &parts.deltas);
  parts.exact = reference::exact_loss(parts.state, line.student, line.current, options);
  parts.full_rkl = reference::reverse_kl(line.teacher, line.current, options);
  parts.full_fkl = reference::forward_kl(line.teacher, line.current);
  parts.union_rkl = reference::reverse_kl(teacher, current, options);
  parts.union_fkl = reference::forward_kl(teacher, current);
  if (line.action) {
    parts.sampled = reference::sampled_rkl(line.student, line.teacher, line.current, *line.action, options);
  }
  return parts;
}

// The kernel's state in the reference's words.
Transport transport_of(const Routes& routes, const ObjectiveOptions& options) {
  const Support& support = routes.support;
  Transport state;
  state.ids = support.ids_L;
  state.student_logits = widened(support.old_logits_L);
  state.p_student = widened(support.p_student_L);
  state.p_teacher = widened(support.p_teacher_L);
  state.potential = widened(support.potential_L);
  state.mass = static_cast<double>(routes.mass_N[0]);
  double total_excess = 0;
  double total_deficit = 0;
  for (std::size_t i = 0; i < state.ids.size(); ++i) {
    const double surplus = static_cast<double>(support.p_student_L[i] - support.p_teacher_L[i]);
    state.excess.push_back(std::max(surplus, 0.0));
    state.deficit.push_back(std::max(-surplus, 0.0));
    state.n_deficit += surplus < 0 ? 1 : 0;
    total_excess += state.excess.back();
    total_deficit += state.deficit.back();
  }
  if (total_excess <= 0 || total_deficit <= 0) return state;
  state.routed = state.mass > options.delta_m;  // whether or not a control found a destination
  for (const double e : state.excess) state.q_minus.push_back(e / total_excess);
  for (const double d : state.deficit) state.q_plus.push_back(d / total_deficit);
  state.bounded = widened(support.bounded_L);
  state.concentration = reference::concentration(state.q_plus, state.n_deficit);
  state.budget = reference::transport_budget(state.concentration, options);
  return state;
}

// One state as the batch that the kernel takes, and the memory it points to.
struct SingleState {
  std::vector<std::int32_t> student_ids, teacher_ids, pool_ids;
  Floats student, teacher_at_student, teacher, student_at_teacher, student_at_pool;
  float student_lse, teacher_lse;
  StateAddress address;
  StateBatch batch;

  SingleState(const RouteLine& line, const StateAddress& at) : address(at) {
    const ObjectiveOptions& options = line.settings.objective;
    student_lse = static_cast<float>(reference::log_sum_exp(line.student));
    teacher_lse = static_cast<float>(reference::log_sum_exp(line.teacher));
    batch.states = 1;
    batch.real_ids = static_cast<std::int32_t>(line.student.size());
    batch.address_N = &address;
    batch.student_lse_N = &student_lse;
    batch.teacher_lse_N = &teacher_lse;
    if (options.k == routing::kFullSupport) {
      student = narrowed(line.student);
      teacher = narrowed(line.teacher);
    } else {
      student_ids = reference::top_k(line.student, options.k);
      teacher_ids = reference::top_k(line.teacher, options.k);
      student = narrowed(at_ids(student_ids, line.student));
      teacher_at_student = narrowed(at_ids(student_ids, line.teacher));
      teacher = narrowed(at_ids(teacher_ids, line.teacher));
      student_at_teacher = narrowed(at_ids(teacher_ids, line.student));
      batch.student_ids_NK = student_ids.data();
      batch.teacher_ids_NJ = teacher_ids.data();
      batch.teacher_at_student_NK = teacher_at_student.data();
      batch.student_at_teacher_NJ = student_at_teacher.data();
    }
    batch.student_columns = static_cast<std::int32_t>(student.size());
    batch.teacher_columns = static_cast<std::int32_t>(teacher.size());
    batch.student_logits_NK = student.data();
    batch.teacher_logits_NJ = teacher.data();
    if (options.needs_pool()) {
      const reference::Pool pool = pool_of(line, at);
      pool_ids = pool.ids;
      pool_ids.resize(std::max<std::size_t>(pool_ids.size(), 1), -1);
      student_at_pool = narrowed(pool.student_logits);
      student_at_pool.resize(pool_ids.size(), 0);
      batch.pool_columns = static_cast<std::int32_t>(pool_ids.size());
      batch.pool_ids_NP = pool_ids.data();
      batch.student_at_pool_NP = student_at_pool.data();
    }
  }
  SingleState(const SingleState&) = delete;
  SingleState& operator=(const SingleState&) = delete;
};

LossAndGradient spread(double loss, const reference::Ids& ids, const Floats& grad, std::size_t vocabulary) {
  LossAndGradient result{loss, Values(vocabulary, 0.0)};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    result.gradient[static_cast<std::size_t>(ids[i])] = static_cast<double>(grad[i]);
  }
  return result;
}

Parts parts_in_float(const RouteLine& line, const StateAddress& address) {
  ObjectiveOptions options = line.settings.objective;
  options.loss = routing::Loss::kRouted;  // `route` answers for every objective, whatever the arm
  const SingleState single(line, address);
  const Routes routes = routing::route_states(single.batch, options, line.settings.seed, 1, true);
  if (routes.validity_N[0] != Validity::kValid) {
    throw UserError("the state cannot be used: {}", name_of(routes.validity_N[0]));
  }
  Parts parts;
  parts.state = transport_of(routes, options);
  if (line.pairs && parts.state.routed) {
    parts.pairs = given_pairs(line, parts.state);
  } else if (routes.routed_N[0] != 0) {
    for (std::size_t i = 0; i < routes.source_NM.size(); ++i) {
      parts.pairs.push_back(
          {routes.source_NM[i], routes.destination_NM[i], static_cast<double>(routes.target_NM[i])});
    }
  }
  const Floats old = narrowed(line.student);
  const Floats current = narrowed(line.current);
  parts.pair =
      reference::pair_loss(parts.state, parts.pairs, widened(old), widened(current), options, &parts.deltas);

  const Floats current_on_u = narrowed(at_ids(parts.state.ids, line.current));
  Floats grad(current_on_u.size());
  const Support& support = routes.support;
  const double weight = options.weight == routing::Weight::kMass ? parts.state.mass : 1.0;
  routing::CouplingScratch scratch;
  const double exact =
      routing::exact_coupling_loss({support.old_logits_L, support.p_student_L, support.p_teacher_L,
                                    support.bounded_L, parts.state.routed ? weight : 0.0, options.kappa},
                                   current_on_u, grad, scratch);
  parts.exact = spread(exact, parts.state.ids, grad, current.size());
  const auto log_delta_p = static_cast<float>(std::log(options.delta_p));
  double loss = routing::union_reverse_kl(support.log_p_teacher_L, current_on_u, log_delta_p, 1, grad);
  parts.union_rkl = {loss, widened(grad)};
  loss = routing::union_forward_kl(support.log_p_teacher_L, support.p_teacher_L, current_on_u, 1, grad);
  parts.union_fkl = {loss, widened(grad)};

  const Floats teacher = narrowed(line.teacher);
  Floats row = current;
  loss = kernels::row_reverse_kl(row, teacher, log_delta_p, 1, nullptr);
  parts.full_rkl = {loss, widened(row)};
  row = current;
  loss = kernels::row_forward_kl(row, teacher, 1);
  parts.full_fkl = {loss, widened(row)};
  if (line.action) {
    parts.sampled =
        reference::sampled_rkl(widened(old), widened(teacher), widened(current), *line.action, options);
  }
  return parts;
}

Json map_of(const reference::Ids& ids, const Values& gradient_over_vocabulary) {
  Json map = Json::object();
  for (const std::int32_t id : ids)
    map[std::to_string(id)] = gradient_over_vocabulary[static_cast<std::size_t>(id)];
  return map;
}

Json map_on_union(const reference::Ids& ids, const Values& gradient) {
  Json map = Json::object();
  for (std::size_t i = 0; i < ids.size(); ++i) map[std::to_string(ids[i])] = gradient[i];
  return map;
}

Json dense(const LossAndGradient& objective) {
  return {{"loss", objective.loss}, {"grad", objective.gradient}};
}

// The ids on which the pair loss pulls.
reference::Ids pulled_ids(const Parts& parts, const RouteLine& line) {
  reference::Ids ids;
  if (line.settings.objective.side != routing::Side::kPair && !parts.pairs.empty()) {
    for (std::size_t v = 0; v < line.current.size(); ++v) {
      if (std::isfinite(line.current[v])) ids.push_back(static_cast<std::int32_t>(v));
    }
    return ids;
  }
  for (const reference::Pair& pair : parts.pairs) {
    ids.push_back(pair.source);
    ids.push_back(pair.destination);
  }
  return ids;
}

}  // namespace

Json route_answer(const RouteLine& line, std::uint32_t index) {
  const ObjectiveOptions& options = line.settings.objective;
  const StateAddress address{.position = index};
  const Parts parts = line.settings.precision == Precision::kDouble ? parts_in_double(line, address)
                                                                    : parts_in_float(line, address);
  const Transport& state = parts.state;
  const bool routed = state.routed && (options.pairs == routing::Pairs::kExact || !parts.pairs.empty());

  Json out = {{"ids", state.ids},       {"p_student", state.p_student}, {"p_teacher", state.p_teacher},
              {"excess", state.excess}, {"deficit", state.deficit},     {"mass", state.mass},
              {"routed", routed},       {"potential", state.potential}, {"n_deficit", state.n_deficit}};
  if (!state.q_minus.empty()) {
    out.update({{"q_minus", state.q_minus},
                {"q_plus", state.q_plus},
                {"bounded", state.bounded},
                {"concentration", state.concentration},
                {"budget", state.budget}});
  }
  const auto retained = [&](const Values& logits) {
    return std::exp(reference::log_sum_exp(at_ids(state.ids, logits)) - reference::log_sum_exp(logits));
  };
  out["student_mass"] = retained(line.student);
  out["teacher_mass"] = retained(line.teacher);

  out["pairs"] = Json::array();
  for (std::size_t i = 0; i < parts.pairs.size(); ++i) {
    const reference::Pair& pair = parts.pairs[i];
    out["pairs"].push_back({{"source", pair.source},
                            {"destination", pair.destination},
                            {"target", pair.target},
                            {"delta", parts.deltas[i]}});
  }
  const reference::Ids none;
  const Json exact_grad = map_of(state.routed ? state.ids : none, parts.exact.gradient);
  const bool exact = options.pairs == routing::Pairs::kExact;
  out["loss"] = exact ? parts.exact.loss : parts.pair.loss;
  out["grad"] = exact ? exact_grad : map_of(pulled_ids(parts, line), parts.pair.gradient);
  out["exact_loss"] = parts.exact.loss;
  out["exact_grad"] = exact_grad;
  if (parts.sampled) out["sampled_rkl"] = dense(*parts.sampled);
  out["full_rkl"] = dense(parts.full_rkl);
  out["full_fkl"] = dense(parts.full_fkl);
  out["union_rkl"] = {{"loss", parts.union_rkl.loss},
                      {"grad", map_on_union(state.ids, parts.union_rkl.gradient)}};
  out["union_fkl"] = {{"loss", parts.union_fkl.loss},
                      {"grad", map_on_union(state.ids, parts.union_fkl.gradient)}};
  if (line.has_current) {
    if (const auto fidelity = reference::fidelity(state, line.student, line.current))
      out["fidelity"] = *fidelity;
    out["leakage"] = reference::leakage(line.teacher, line.student, line.current, options.delta_diag);
  }
  return out;
}

}  // namespace routeopd::app
