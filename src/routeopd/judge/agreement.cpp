//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/judge/agreement.h"

namespace routeopd::judge {

Agreement agreement_of(const Confusion& counts) {
  PerLabel<std::int64_t> rows{};
  PerLabel<std::int64_t> columns{};
  std::int64_t n = 0;
  std::int64_t equal = 0;
  for (std::size_t a = 0; a < kLabels; ++a) {
    for (std::size_t b = 0; b < kLabels; ++b) {
      rows[a] += counts[a][b];
      columns[b] += counts[a][b];
      n += counts[a][b];
    }
    equal += counts[a][a];
  }
  Agreement result{.n = n, .share = {}, .kappa = {}};
  if (n == 0) return result;
  const auto total = static_cast<double>(n);
  const double observed = static_cast<double>(equal) / total;
  result.share = observed;
  double expected = 0;
  for (std::size_t a = 0; a < kLabels; ++a) {
    if (rows[a] == n && columns[a] == n) return result;
    expected += static_cast<double>(rows[a]) / total * (static_cast<double>(columns[a]) / total);
  }
  result.kappa = (observed - expected) / (1 - expected);
  return result;
}

}  // namespace routeopd::judge
