// The arms of the study and their crossings: each a name and the settings that differ from the study's own.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "routeopd/lab/study_options.h"
#include "routeopd/routing/options.h"

namespace routeopd::lab {

// Which comparison a variant belongs to. fixed_mid, which is teacher_deficit too, stands in several and is trained once.
enum class Family { kMain, kDestination, kObjective, kBudget, kSupport, kPairs };

struct Variant {
  std::string name;  // of its runs
  Family family = Family::kMain;
  Json settings;  // of [objective]: the arm, and what is not the arm's own
};

// All of them, in the order of the paper's tables. The sweeps leave out the study's own k and m: that run is routeopd.
std::vector<Variant> all_variants(const StudyOptions& options);

// [objective] of a variant in this study.
routing::ObjectiveOptions objective_of(const Variant& variant, const StudyOptions& options);

// The parts, in the order in which they are run.
const std::vector<std::string>& part_names();

// One training run.
struct PlannedRun {
  Variant variant;
  std::uint64_t seed = 0;
  std::int64_t every = 0;  // steps between evaluations; 0: at the end alone
  std::int64_t hold = 0;   // the step whose checkpoint stays beside the last one; 0: none

  std::string name() const;  // NAME-seedS
};

// The runs that a part needs, seed by seed, so that a study that is stopped has whole comparisons. How a run is made does
// not hang on the part.
std::vector<PlannedRun> runs_of(const std::string& part, const StudyOptions& options);

}  // namespace routeopd::lab
