// Full-vocabulary reverse and forward KL with exact gradients. Both models' logits are walked in chunks of
// tokens; the teacher's are computed beside the student's and dropped with the chunk.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "routeopd/objective/objective.h"

namespace routeopd::objective {

std::unique_ptr<Objective> make_full_kl_objective(const routing::ObjectiveOptions& options,
                                                  model::Backend backend);

}  // namespace routeopd::objective
