// How far two passes agree.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "routeopd/judge/labels.h"

namespace routeopd::judge {

// Responses by the label of pass 1 (row) and of pass 2 (column).
using Confusion = PerLabel<PerLabel<std::int64_t>>;

struct Agreement {
  std::int64_t n = 0;
  std::optional<double> share;  // p_o, the share with equal labels; none for n = 0
  // Cohen's kappa, (p_o - p_e) / (1 - p_e), with p_e = sum over labels of the product of both passes' shares. None for
  // n = 0 and for p_e = 1, where both passes gave everything the same one label: chance alone explains that.
  std::optional<double> kappa;
};

Agreement agreement_of(const Confusion& counts);

}  // namespace routeopd::judge
