// The objectives on log-probabilities of single tokens, which need the log-partition and so the dense head:
// sampled reverse KL, the one-sided ablations, and the cross-entropy of given responses. With l = log
// pi_theta at a few ids and s = d loss / d l, the gradient on the logits is  sum of s_i (e_i - pi_theta).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "routeopd/objective/objective.h"

namespace routeopd::objective {

std::unique_ptr<Objective> make_log_prob_objective(const routing::ObjectiveOptions& options,
                                                   model::Backend backend);

}  // namespace routeopd::objective
