// A bank probed on the way through a run: RUN/probe.jsonl, a line a probed step, the start as step 0.
//
//   {"step", "mass",                      mean mismatch mass on the bank's states and supports
//    "fidelity", "leakage",               of one fresh-AdamW update of the run's arm from the weights of that step
//    "since_start": {"fidelity", "leakage", "deficit_reduction"},   the starting student against the present one
//    "rms"}                               of that update
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "routeopd/probe/bank.h"
#include "routeopd/probe/prober.h"
#include "routeopd/train/inputs.h"
#include "routeopd/train/recipe.h"

namespace routeopd::probe {

class TrainingProbe {
 public:
  // Before training, while inputs.student is the one that the recipe names; both must outlive the probe. Throws UserError
  // for a bank of other models.
  TrainingProbe(const train::Recipe& recipe, const train::Inputs& inputs);

  // What a line of probe.jsonl says of the student as it is now.
  Json measure(std::int64_t step) const;

 private:
  const train::Recipe& recipe_;
  const train::Inputs& inputs_;
  Bank bank_;
  at::Tensor start_hidden_SH_, start_head_VH_;
};

}  // namespace routeopd::probe
