// The operators of routing: pairs of every state from both models' values, the pool of background ids, and
// the losses on the union.
//
// Shapes: N states, K columns of the student's top-k, J of the teacher's, P of the pool, M pairs per state,
// W = K + J columns of the support.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <tuple>
#include <vector>

#include "routeopd/routing/controls.h"
#include "routeopd/routing/options.h"
#include "routeopd/routing/route_states.h"
#include "routeopd/routing/token_losses.h"
#include "tensors.h"

namespace routeopd::python {
namespace {

constexpr std::int64_t kStatesPerThread = 64;  // of a loss on the union: about a microsecond each

routing::ObjectiveOptions options_of(const std::string& json) {
  return routing::objective_from(Json::parse(json));
}

std::vector<StateAddress> addresses_of(const Tensor& address, std::int64_t states) {
  if (address.scalar_type() != ScalarType::Long || address.dim() != 2 || address.size(0) != states ||
      address.size(1) != 4 || !address.is_contiguous() || !address.is_cpu())
    throw UserError("address: expected int64 of shape [{}, 4]: step, prompt, response, position", states);
  const auto* const from = static_cast<const std::int64_t*>(address.const_data_ptr());
  std::vector<StateAddress> addresses(static_cast<std::size_t>(states));
  for (std::int64_t n = 0; n < states; ++n) {
    for (std::int64_t i = 0; i < 4; ++i)
      if (from[4 * n + i] < 0 || from[4 * n + i] > std::numeric_limits<std::uint32_t>::max())
        throw UserError("address: expected numbers from 0 to 2^32 - 1, got {}", from[4 * n + i]);
    const auto word = [&](std::int64_t i) { return static_cast<std::uint32_t>(from[4 * n + i]); };
    addresses[static_cast<std::size_t>(n)] = {word(0), word(1), word(2), word(3)};
    check_address(addresses[static_cast<std::size_t>(n)]);
  }
  return addresses;
}

template <class T>
Tensor copied(const std::vector<T>& values, Tensor to) {
  std::copy(values.begin(), values.end(), data_of<T>(to));
  return to;
}

// Rows of the support, padded to `columns`, -1 among the ids.
Tensor padded_ids(const Support& support, std::int64_t states, std::int64_t columns) {
  Tensor ids_NW = empty_ints({states, columns});
  std::fill_n(data_of<std::int32_t>(ids_NW), states * columns, -1);
  for (std::int64_t n = 0; columns > 0 && n < states; ++n) {
    const std::int64_t first = support.offsets_N1[static_cast<std::size_t>(n)];
    const std::int64_t last = support.offsets_N1[static_cast<std::size_t>(n) + 1];
    std::copy(support.ids_L.begin() + first, support.ids_L.begin() + last,
              data_of<std::int32_t>(ids_NW) + n * columns);
  }
  return ids_NW;
}

Tensor padded_values(const Support& support, std::int64_t states, std::int64_t columns) {
  const std::vector<float>* const parts[] = {&support.old_logits_L, &support.log_p_teacher_L,
                                             &support.p_student_L,  &support.p_teacher_L,
                                             &support.potential_L,  &support.bounded_L};
  Tensor values_6NW = empty_floats({6, states, columns});
  float* to = data_of<float>(values_6NW);
  std::fill_n(to, 6 * states * columns, 0.0F);
  for (const std::vector<float>* part : parts) {
    for (std::int64_t n = 0; columns > 0 && n < states; ++n)
      std::copy(part->begin() + support.offsets_N1[static_cast<std::size_t>(n)],
                part->begin() + support.offsets_N1[static_cast<std::size_t>(n) + 1], to + n * columns);
    to += states * columns;
  }
  return values_6NW;
}

// Source [N, M] and destination; target and old value [N, M]; statistics [8, N] (weight, mass, concentration,
// budget, coverage, saturated, student_mass, teacher_mass); n_deficit [N]; validity and routed [2, N]; ids of
// the support [N, W] and its values [6, N, W], both without columns where nobody asked for it.
using RouteTensors =
    std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

RouteTensors tensors_of(const Routes& routes, std::int64_t support_columns) {
  const std::int64_t n = routes.states, m = routes.pairs;
  Tensor statistics_8N = empty_floats({8, n});
  float* to = data_of<float>(statistics_8N);
  for (const auto* values :
       {&routes.weight_N, &routes.mass_N, &routes.concentration_N, &routes.budget_N, &routes.coverage_N,
        &routes.saturated_N, &routes.student_mass_N, &routes.teacher_mass_N})
    to = std::copy(values->begin(), values->end(), to);
  Tensor validity_N = empty_bytes(n);
  std::transform(routes.validity_N.begin(), routes.validity_N.end(), data_of<std::uint8_t>(validity_N),
                 [](Validity validity) { return static_cast<std::uint8_t>(validity); });
  return {copied(routes.source_NM, empty_ints({n, m})),
          copied(routes.destination_NM, empty_ints({n, m})),
          copied(routes.target_NM, empty_floats({n, m})),
          copied(routes.old_NM, empty_floats({n, m})),
          statistics_8N,
          copied(routes.n_deficit_N, empty_ints({n})),
          validity_N,
          copied(routes.routed_N, empty_bytes(n)),
          padded_ids(routes.support, n, support_columns),
          padded_values(routes.support, n, support_columns)};
}

// student_ids and teacher_ids without columns: the full support, column = id.
RouteTensors route(Tensor student_ids, Tensor student_logits, Tensor teacher_at_student, Tensor teacher_ids,
                   Tensor teacher_logits, Tensor student_at_teacher, std::optional<Tensor> pool_ids,
                   std::optional<Tensor> student_at_pool, std::optional<Tensor> student_lse,
                   std::optional<Tensor> teacher_lse, std::optional<Tensor> validity, Tensor address,
                   std::string options_json, std::int64_t seed, std::int64_t real_ids, bool with_support) {
  const routing::ObjectiveOptions options = options_of(options_json);
  if (student_logits.dim() != 2 || teacher_logits.dim() != 2)
    throw UserError("student and teacher: expected logits of shape [states, ids]");
  if (real_ids < 1 || real_ids >= std::int64_t{1} << 31)
    throw UserError("real_ids: expected 1 to 2^31 - 1, got {}", real_ids);
  const std::int64_t states = student_logits.size(0);
  StateBatch batch;
  batch.states = states;
  batch.real_ids = static_cast<std::int32_t>(real_ids);
  const std::int64_t k = student_logits.size(1), j = teacher_logits.size(1);
  const bool full = student_ids.numel() == 0 && teacher_ids.numel() == 0 && k == real_ids && j == real_ids;
  batch.student_columns = static_cast<std::int32_t>(k);
  batch.teacher_columns = static_cast<std::int32_t>(j);
  batch.student_logits_NK = float_data(student_logits, "student.logits", states, k);
  batch.teacher_logits_NJ = float_data(teacher_logits, "teacher.logits", states, j);
  if (!full) {
    batch.student_ids_NK = int32_data(student_ids, "student.ids", states, k);
    batch.teacher_ids_NJ = int32_data(teacher_ids, "teacher.ids", states, j);
    batch.teacher_at_student_NK = float_data(teacher_at_student, "the teacher at student.ids", states, k);
    batch.student_at_teacher_NJ = float_data(student_at_teacher, "the student at teacher.ids", states, j);
  }
  if (pool_ids) {
    if (!student_at_pool) throw UserError("pool: expected the student's values at its ids");
    if (pool_ids->dim() != 2) throw UserError("pool: expected ids of shape [states, draws]");
    batch.pool_columns = static_cast<std::int32_t>(pool_ids->size(1));
    batch.pool_ids_NP = int32_data(*pool_ids, "pool.ids", states, batch.pool_columns);
    batch.student_at_pool_NP =
        float_data(*student_at_pool, "student at pool.ids", states, batch.pool_columns);
    if (std::any_of(batch.pool_ids_NP, batch.pool_ids_NP + states * batch.pool_columns,
                    [&](std::int32_t id) { return id < -1 || id >= real_ids; }))
      throw UserError("pool: expected ids from -1 to {}", real_ids - 1);
  }
  batch.student_lse_N = float_data_or_null(student_lse, "student.logsumexp", states);
  batch.teacher_lse_N = float_data_or_null(teacher_lse, "teacher.logsumexp", states);
  std::vector<Validity> reasons;
  if (validity) {
    if (validity->scalar_type() != ScalarType::Byte || validity->numel() != states ||
        !validity->is_contiguous())
      throw UserError("validity: expected uint8, one per state");
    const auto* const from = static_cast<const std::uint8_t*>(validity->const_data_ptr());
    for (std::int64_t n = 0; n < states; ++n) {
      if (from[n] >= kValidityNames.size())
        throw UserError("validity: expected 0 to {}, got {}", kValidityNames.size() - 1, from[n]);
      reasons.push_back(static_cast<Validity>(from[n]));
    }
    batch.validity_N = reasons.data();
  }
  const std::vector<StateAddress> addresses = addresses_of(address, states);
  batch.address_N = addresses.data();

  const Routes routes =
      routing::route_states(batch, options, static_cast<std::uint64_t>(seed),
                            static_cast<int>(torch::stable::get_num_threads()), with_support);
  const bool held = with_support || routing::needs_support(options);
  return tensors_of(routes, !held ? 0 : full ? real_ids : k + j);
}

// Ids that are not among the student's, for the destinations that draw from a pool: [N, kPoolDraws], -1 pads.
Tensor background_pool(Tensor student_ids, Tensor address, std::int64_t real_ids, std::int64_t seed) {
  if (student_ids.dim() != 2) throw UserError("student.ids: expected shape [states, ids]");
  if (real_ids < 1 || real_ids >= std::int64_t{1} << 31)
    throw UserError("real_ids: expected 1 to 2^31 - 1, got {}", real_ids);
  const std::int64_t states = student_ids.size(0), k = student_ids.size(1);
  const std::int32_t* const ids = int32_data(student_ids, "student.ids", states, k);
  Rollout rollout;
  rollout.id_N.resize(static_cast<std::size_t>(states));
  rollout.columns = static_cast<std::int32_t>(k);
  rollout.top_ids_NK.assign(ids, ids + states * k);
  rollout.address_N = addresses_of(address, states);
  return copied(routing::background_pools_NP(rollout, static_cast<std::int32_t>(real_ids),
                                             static_cast<std::uint64_t>(seed)),
                empty_ints({states, routing::kPoolDraws}));
}

// The loss of each state on its support, and its gradient on the current logits there: the exact coupling or
// a KL divergence, as the options say. Rows are as padded_ids() makes them.
std::tuple<Tensor, Tensor> support_loss(Tensor logits, Tensor ids, Tensor old, Tensor values, Tensor weight,
                                        std::string options_json) {
  const routing::ObjectiveOptions options = options_of(options_json);
  if (logits.dim() != 2) throw UserError("logits: expected shape [states, ids of the support]");
  const std::int64_t states = logits.size(0), columns = logits.size(1);
  const float* const now = float_data(logits, "logits", states, columns);
  const std::int32_t* const ids_NW = int32_data(ids, "support.ids", states, columns);
  const float* const old_NW = float_data(old, "old", states, columns);
  if (values.dim() != 3 || values.size(0) != 6 || values.size(1) != states || values.size(2) != columns ||
      !values.is_contiguous() || values.scalar_type() != ScalarType::Float)
    throw UserError("support: expected values of shape [6, {}, {}]", states, columns);
  const auto* const values_6NW = static_cast<const float*>(values.const_data_ptr());
  const float* const weight_N = float_data(weight, "weight", states);
  const auto log_delta_p = static_cast<float>(std::log(options.delta_p));

  Tensor loss_N = empty_floats({states});
  Tensor grad_NW = empty_floats({states, columns});
  torch_threads()(0, states, kStatesPerThread, [&](std::int64_t begin, std::int64_t end) {
    routing::CouplingScratch scratch;
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int32_t* const own = ids_NW + n * columns;
      const auto count = static_cast<std::size_t>(std::find(own, own + columns, -1) - own);
      const auto part = [&](std::int64_t which) {
        return std::span(values_6NW + (which * states + n) * columns, count);
      };
      const std::span current(now + n * columns, count);
      float* const to = data_of<float>(grad_NW) + n * columns;
      std::fill_n(to, columns, 0.0F);
      const std::span grad(to, count);
      double value = 0;
      if (count == 0) {
      } else if (options.loss == routing::Loss::kUnionRkl) {
        value = routing::union_reverse_kl(part(1), current, log_delta_p, 1, grad);
      } else if (options.loss == routing::Loss::kUnionFkl) {
        value = routing::union_forward_kl(part(1), part(3), current, 1, grad);
      } else {
        value = routing::exact_coupling_loss({std::span(old_NW + n * columns, count), part(2), part(3),
                                              part(5), static_cast<double>(weight_N[n]), options.kappa},
                                             current, grad, scratch);
      }
      data_of<float>(loss_N)[n] = static_cast<float>(value);
    }
  });
  return {loss_N, grad_NW};
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(routeopd, library) {
  library.def(
      "route(Tensor student_ids, Tensor student_logits, Tensor teacher_at_student, Tensor teacher_ids, "
      "Tensor teacher_logits, Tensor student_at_teacher, Tensor? pool_ids, Tensor? student_at_pool, "
      "Tensor? student_lse, Tensor? teacher_lse, Tensor? validity, Tensor address, str options, int seed, "
      "int real_ids, bool with_support) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, "
      "Tensor, Tensor)");
  library.def("background_pool(Tensor student_ids, Tensor address, int real_ids, int seed) -> Tensor");
  library.def(
      "support_loss(Tensor logits, Tensor ids, Tensor old, Tensor values, Tensor weight, str options) -> "
      "(Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(routeopd, CPU, library) {
  library.impl("route", TORCH_BOX(&Marked<&route>::call));
  library.impl("background_pool", TORCH_BOX(&Marked<&background_pool>::call));
  library.impl("support_loss", TORCH_BOX(&Marked<&support_loss>::call));
}

}  // namespace routeopd::python
