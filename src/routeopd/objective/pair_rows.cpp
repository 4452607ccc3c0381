//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "routeopd/base/error.h"
#include "routeopd/objective/arms.h"
#include "routeopd/routing/huber.h"

namespace routeopd::objective {

PairRows::PairRows(const LearnerBatch& batch) {
  ROUTEOPD_INVARIANT(batch.routes != nullptr && batch.denominator > 0);
  const Routes& routes = *batch.routes;
  tokens = batch.hidden_TH.size(0);
  pairs = routes.pairs;
  denominator = batch.denominator;
  ROUTEOPD_INVARIANT(batch.first_state >= 0 && batch.first_state + tokens <= routes.states);
  const auto first = static_cast<std::size_t>(batch.first_state * pairs);
  const auto count = static_cast<std::size_t>(tokens * pairs);
  source = std::span(routes.source_NM).subspan(first, count);
  destination = std::span(routes.destination_NM).subspan(first, count);
  target = std::span(routes.target_NM).subspan(first, count);
  old = std::span(routes.old_NM).subspan(first, count);
  weight = std::span(routes.weight_N)
               .subspan(static_cast<std::size_t>(batch.first_state), static_cast<std::size_t>(tokens));
  // from_blob wants a pointer to mutable memory; nothing writes through these tensors.
  const auto as_tensor = [&](std::span<const std::int32_t> ids) {
    return at::from_blob(const_cast<std::int32_t*>(ids.data()), {tokens, pairs}, at::kInt);
  };
  source_TM = as_tensor(source);
  destination_TM = as_tensor(destination);
}

std::int64_t PairRows::pairs_present() const {
  return std::count_if(source.begin(), source.end(), [](std::int32_t id) { return id >= 0; });
}

double pair_token_loss(const PairRows& rows, std::int64_t t, std::span<const float> values,
                       std::span<float> grad, float kappa, double& change_squares) {
  const auto m = static_cast<std::size_t>(rows.pairs);
  const std::size_t first = static_cast<std::size_t>(t) * m;
  const double scale = static_cast<double>(rows.weight[static_cast<std::size_t>(t)]) /
                       static_cast<double>(m) / rows.denominator;
  double loss = 0;
  for (std::size_t i = 0; i < m; ++i) {
    const float change = values[i] - rows.old[first + i];
    const float residual = change - rows.target[first + i];
    const bool present = rows.source[first + i] >= 0;
    loss += present ? scale * static_cast<double>(routing::huber(residual, kappa)) : 0;
    change_squares += present ? static_cast<double>(change) * static_cast<double>(change) : 0;
    grad[i] =
        present ? static_cast<float>(scale * static_cast<double>(routing::huber_slope(residual, kappa))) : 0;
  }
  return loss;
}

}  // namespace routeopd::objective
