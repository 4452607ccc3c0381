// One state of a bank in full: what scalar credit on the sampled token does to every id, and what the
// operator does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "routeopd/probe/prober.h"

namespace routeopd::probe {

using TextOf = std::function<std::string(std::int32_t id)>;

// Of the routed states at which the student's own token is the source of every pair, the one where scalar
// credit would send most mass to tokens without a deficit: a picture of the difference, not a typical state
// ("choice" says so). Null where there is none. Both steps move this state's logits alone, along minus the
// objective's gradient there:
//   sampled reverse KL   pi_old - e_a (eq. implicit-redistribution)
//   RouteOPD             sum over pairs of min(D, kappa) (e_b - e_a)
// and are scaled so that the state's pairs change by the RMS of their targets.
Json example_state(const Bank& bank, const Prober& prober, const at::Tensor& teacher_head_UX,
                   const TextOf& text);

}  // namespace routeopd::probe
