// The baselines and diagnostics of one state in double precision: sampled reverse KL, full-vocabulary and
// union KLs, routing fidelity and background leakage. The specification of the dense and gather objectives.
//
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
// teacher value of -inf counts as log delta_p in the reverse KL; ids at -inf in the student are left out.
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

}  // namespace routeopd::routing::reference
