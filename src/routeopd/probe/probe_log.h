// RUN/probe.jsonl: fixed states of the starting student, looked at every so many steps of a run.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "routeopd/probe/mismatch.h"
#include "routeopd/probe/training_probe.h"

namespace routeopd::probe {

class ProbeLog {
 public:
  // Before training, while inputs.student is the one that the recipe names. Does nothing where [probe] every is 0. Without a
  // bank, states are chosen here and their mismatch mass alone is told.
  ProbeLog(const train::Recipe& recipe, const train::Inputs& inputs);

  // Appends the line of a step that is due; nothing where the file has it already: the step that a run goes on from.
  void after(std::int64_t step);

  // What was measured last, for a progress line; empty before.
  const std::string& note() const { return note_; }

 private:
  Json measure(std::int64_t step) const;

  const train::Recipe& recipe_;
  const train::Inputs& inputs_;
  std::optional<MismatchBank> masses_;
  std::optional<TrainingProbe> bank_;
  Json start_;  // the line of step 0
  std::string note_;
};

}  // namespace routeopd::probe
