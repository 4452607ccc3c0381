// The Huber loss of a residual (eq. huber-loss) and its derivative.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

namespace routeopd::routing {

template <class Real>
Real huber(Real residual, Real kappa) {
  const Real size = std::abs(residual);
  return size <= kappa ? residual * residual / 2 : kappa * (size - kappa / 2);
}

template <class Real>
Real huber_slope(Real residual, Real kappa) {
  return std::clamp(residual, -kappa, kappa);
}

}  // namespace routeopd::routing
