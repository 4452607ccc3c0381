// RUN/probe.jsonl: fixed states of the starting student, probed every [probe] `every` steps. One line per
// probed step, the start as step 0:
//
//   {"step", "mass",           mean mismatch mass on the fixed states and supports
//    "fidelity", "leakage",    of one fresh-AdamW update of the run's arm, from the weights of that step
//    "rms",                    of that update
//    "since_start": {"fidelity", "leakage", "deficit_reduction"}}   the starting student against this one
//
// All but the first two need a bank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "routeopd/base/fields.h"
#include "routeopd/probe/bank.h"
#include "routeopd/probe/mismatch.h"
#include "routeopd/ranks/group.h"
#include "routeopd/train/engines.h"
#include "routeopd/train/inputs.h"
#include "routeopd/train/recipe.h"

namespace routeopd::run {

// Without a bank, the states are visited by the answers to this many prompts.
inline constexpr std::int64_t kProbePrompts = 64;

class ProbeLog {
 public:
  // Before training, while inputs.student is the one that the recipe names; both must outlive the log. The
  // run's engines are used here alone. Measures the start. Does nothing where [probe] every is 0. Throws
  // UserError for a bank of other models, or one that the teacher's LM head is missing for. Rank 0 has the
  // file; the engines of all ranks score fixed states, and a bank is rank 0's work alone.
  ProbeLog(const train::Recipe& recipe, const train::Inputs& inputs, const train::Engines& engines,
           ranks::Group& group = ranks::alone());

  // Appends the line of a step that is due, unless the file has it: a run resumes from a step that was
  // probed.
  void after(std::int64_t step);

  // What was measured last, for a progress line: ", mass on fixed states …"; empty before.
  const std::string& note() const { return note_; }

 private:
  // A bank, and the starting student on its states.
  struct BankProbe {
    probe::Bank bank;
    at::Tensor teacher_head_UX;
    at::Tensor start_hidden_SH, start_head_VH;
  };

  void open_bank(const train::Engines& engines);
  void choose_states(engine::Engine& base, const train::Engines& engines,
                     std::span<engine::Engine* const> shared_teachers);
  Json measure(std::int64_t step, engine::Engine& student) const;
  Json measure_on_bank(std::int64_t step) const;
  void append(const Json& line);

  const train::Recipe& recipe_;
  const train::Inputs& inputs_;
  ranks::Group& group_;
  std::optional<BankProbe> bank_;
  std::optional<probe::MismatchBank> masses_;  // without a bank
  Json start_;                                 // the line of step 0
  std::string note_;
};

}  // namespace routeopd::run
