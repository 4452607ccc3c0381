// The direct-logit interventions at the top of the paper's ladder: what a step would do to the student's distribution
// on U if logits could be set by hand. In double precision, beside the reference.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "routeopd/routing/reference.h"

namespace routeopd::routing::reference {

// Potential-wide exact: z'(v) = z(v) + phi_B(g(v)) at every v of U. The log-odds of each pair (a, b) then change by
// phi_B(g(b)) - phi_B(g(a)), its shared target, all of them at once. The answer is p' on U,
//   p'(v) = p_S(v) exp(phi_B(g(v))) / sum_U p_S exp(phi_B(g)).
// Where the models agree on U there is no potential, and p' = p_S.
Values potential_wide_step(const Transport& state);

// Pair-isolated exact: z'(b) = z(b) + t/2 and z'(a) = z(a) - t/2 for the pair's target t, no other logit moves. The
// paper says that the target is realised by these two logits alone; the even split, which leaves their sum where it
// was, is ours. p' on U; throws UserError where an id is not in U.
Values pair_isolated_step(const Transport& state, const Pair& pair);

// M between the student's distribution `p_after` on U and the teacher's there.
double mass_after(const Transport& state, std::span<const double> p_after);

// The student's full-vocabulary mass on U after the potential-wide step; logits outside U stay where they are:
//   s' = s E / (1 - s + s E), E = sum_U p_S exp(phi_B(g)), s = `student_mass` before.
double retained_after(const Transport& state, double student_mass);

}  // namespace routeopd::routing::reference
