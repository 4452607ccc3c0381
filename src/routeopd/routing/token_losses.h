// The losses of one state on its union U, with their gradients on the current logits: Huber on a pair, the
// whole product coupling, and the KL divergences on U.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace routeopd::routing {

// The Huber loss of a residual (eq. huber-loss) and its derivative.
template <class Real>
Real huber(Real residual, Real kappa) {
  const Real size = std::abs(residual);
  return size <= kappa ? residual * residual / 2 : kappa * (size - kappa / 2);
}

template <class Real>
Real huber_slope(Real residual, Real kappa) {
  return std::clamp(residual, -kappa, kappa);
}

// The whole product coupling q- x q+ of one state without its k^2 table (ours; the paper samples m pairs).
//
// With u = (z_theta - z_old) - phi on U, the loss is w E[h_kappa(u_b - u_a)], a ~ q-, b ~ q+. While every
// residual is inside the Huber transition it is  (w/2) (Var+ u + Var- u + (mean+ u - mean- u)^2),  O(k).
// Otherwise both sides are sorted by u and prefix sums give each token's part, O(k log k).

// One state's frozen side of the objective, on U.
struct CouplingView {
  std::span<const float> old_logits;
  std::span<const float> p_student, p_teacher;  // excess and deficit are their differences
  std::span<const float> bounded;               // phi_B(g)
  double weight = 0;                            // M or 1, already divided by the batch's denominator
  double kappa = 1;
};

// Working memory, reused from state to state.
struct CouplingScratch {
  struct Token {
    double u;
    double q;
    std::size_t at;
  };
  std::vector<Token> sources, destinations;
  std::vector<double> sum_q, sum_qu, sum_quu;
};

// Writes the gradient on `current_logits` (every element of `grad`) and returns the loss.
double exact_coupling_loss(const CouplingView& state, std::span<const float> current_logits,
                           std::span<float> grad, CouplingScratch& scratch);

// KL divergences of the current student and the teacher on U alone (ours): the locality of routing, the shape
// of reverse or forward KL, and no LM-head product.

// scale * KL(p_theta || p_T), p_theta the softmax of the current logits on U; writes its gradient on them to
// `grad`, which may alias `current_logits`. A teacher value of -inf counts as `log_delta_p`.
double union_reverse_kl(std::span<const float> log_p_teacher, std::span<const float> current_logits,
                        float log_delta_p, double scale, std::span<float> grad);

// scale * KL(p_T || p_theta), the same way.
double union_forward_kl(std::span<const float> log_p_teacher, std::span<const float> p_teacher,
                        std::span<const float> current_logits, double scale, std::span<float> grad);

}  // namespace routeopd::routing
