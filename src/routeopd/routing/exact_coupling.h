// The whole product coupling q- x q+ of one state without its k^2 table (ours; the paper samples m pairs).
//
// With u = (z_theta - z_old) - phi on U, the loss is w E[h_kappa(u_b - u_a)], a ~ q-, b ~ q+. While every
// residual is inside the Huber transition it is  (w/2) (Var+ u + Var- u + (mean+ u - mean- u)^2),  O(k).
// Otherwise both sides are sorted by u and prefix sums give each token's part, O(k log k).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace routeopd::routing {

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

}  // namespace routeopd::routing
