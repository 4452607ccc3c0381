// The baselines and diagnostics of one state in double precision: sampled reverse KL, full-vocabulary and
// union KLs, routing fidelity and background leakage, and the exact steps at the top of the paper's ladder.
// The specification of the dense and gather objectives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "routeopd/routing/reference.h"

namespace routeopd::routing::reference {

// -rho A with A = log pi_T(a) - log pi_old(a) (eq. sampled-opd-advantage) and rho = pi_theta(a) / pi_old(a);
// with ratio_clip = eps > 0, -min(rho A, clip(rho, 1 - eps, 1 + eps) A). A teacher value of -inf counts as
// log delta_p.
LossAndGradient sampled_rkl(std::span<const double> old_logits, std::span<const double> teacher_logits,
                            std::span<const double> current_logits, std::int32_t action,
                            const ObjectiveOptions& options);

// KL(pi_theta || pi_T) and KL(pi_T || pi_theta) of two softmaxes over the same ids, with 0 log 0 = 0. A
// teacher value of -inf counts as log delta_p in the reverse KL; ids at -inf in the student take no part.
LossAndGradient reverse_kl(std::span<const double> teacher_logits, std::span<const double> current_logits,
                           const ObjectiveOptions& options);
LossAndGradient forward_kl(std::span<const double> teacher_logits, std::span<const double> current_logits);

// eq. app-routing-fidelity with the sparse E and D of `state`, on full-vocabulary probabilities; none where
// no source mass was removed.
std::optional<double> fidelity(const Transport& state, std::span<const double> before_logits,
                               std::span<const double> after_logits);

// eq. app-background-leakage, with the full-vocabulary deficit set.
double leakage(std::span<const double> teacher_logits, std::span<const double> before_logits,
               std::span<const double> after_logits, double delta_diag);

// The direct-logit interventions: what a step would do to the student's distribution on U if logits could be
// set by hand.

// Potential-wide exact: z'(v) = z(v) + phi_B(g(v)) at every v of U. The log-odds of each pair (a, b) then
// change by phi_B(g(b)) - phi_B(g(a)), its shared target, all of them at once. The answer is p' on U,
//   p'(v) = p_S(v) exp(phi_B(g(v))) / sum_U p_S exp(phi_B(g)).
// Where the models agree on U there is no potential, and p' = p_S.
Values potential_wide_step(const Transport& state);

// Pair-isolated exact: z'(b) = z(b) + t/2 and z'(a) = z(a) - t/2 for the pair's target t, no other logit
// moves. The paper says that the target is realised by these two logits alone; the even split, which leaves
// their sum where it was, is ours. p' on U; throws UserError where an id is not in U.
Values pair_isolated_step(const Transport& state, const Pair& pair);

// M between the student's distribution `p_after` on U and the teacher's there.
double mass_after(const Transport& state, std::span<const double> p_after);

// The student's full-vocabulary mass on U after the potential-wide step; logits outside U stay where they
// are:
//   s' = s E / (1 - s + s E), E = sum_U p_S exp(phi_B(g)), s = `student_mass` before.
double retained_after(const Transport& state, double student_mass);

}  // namespace routeopd::routing::reference
