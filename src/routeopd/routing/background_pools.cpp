//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/background_pools.h"

#include "routeopd/routing/reference.h"

namespace routeopd::routing {

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
