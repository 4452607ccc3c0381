// What the study measures on frozen states: along the main arms' runs, and in the mechanism part. The narrow place where
// the driver meets the probes.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "routeopd/lab/loaded_pair.h"
#include "routeopd/lab/study_files.h"
#include "routeopd/probe/mismatch.h"

namespace routeopd::lab {

// The frozen states of the starting student, made once a process.
class StudyBank {
 public:
  explicit StudyBank(const LoadedPair& pair, const StudyOptions& options);

  double base_mass() const { return base_mass_; }
  double mass_of(const model::Model& student) const;

 private:
  const LoadedPair& pair_;
  std::unique_ptr<probe::MismatchBank> bank_;
  double base_mass_ = 0;
};

// probe.jsonl of a run: a line for the start, and one for each step that after() is called with.
class RunProbe {
 public:
  RunProbe(const StudyBank& bank, std::filesystem::path run, const model::Model& student);

  // Nothing where the line is there: the step that a run goes on from.
  void after(std::int64_t step);

 private:
  const StudyBank& bank_;
  std::filesystem::path file_;
  const model::Model& student_;
};

// STUB: bank.safetensors of the study, for the probes below. False: not available, and the part is not complete.
bool make_bank(StudyFiles& files, const LoadedPair& pair);

// STUB: the probe directories of the mechanism part (arms and support at the base student; ladder at the middle checkpoint
// of routeopd, whose path is `checkpoint`). False: not available.
bool run_probes(StudyFiles& files, const LoadedPair& pair, const std::filesystem::path& checkpoint);

}  // namespace routeopd::lab
