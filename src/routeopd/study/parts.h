// The parts of a study as a table: what each trains and what it measures besides. A new part is a line of it,
// and a new kind of measurement a field that study_plan.cpp and study.cpp read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "routeopd/study/study_options.h"
#include "routeopd/study/variants.h"

namespace routeopd::study {

// Which of the study's training seeds a part trains with.
enum class PartSeeds { kAll, kMain, kFirstMain };

struct Part {
  std::string name;
  std::string what;                 // for help
  std::vector<Family> families;     // of the variants that it trains
  std::vector<std::string> beside;  // variants that they are compared with
  PartSeeds seeds = PartSeeds::kAll;
  bool tune = false;           // chooses every arm's learning rate
  bool shared = false;         // trains once more with one rate for all, where each has its own
  bool takes_named = false;    // trains whatever arms the user named, of all families
  bool untrained = true;       // evaluates the untrained student and the teacher, where there are suites
  bool distances = false;      // to the teacher on held-out states, of each run at its end
  bool concentration = false;  // of the teacher's demand on each problem
  bool probes = false;         // on frozen states
  bool cost = false;           // time and memory of the arms
};

// In the order in which they are run.
const std::vector<Part>& all_parts();
const Part& part_named(const std::string& name);
std::vector<std::string> part_names();

// One training run.
struct PlannedRun {
  Variant variant;
  std::uint64_t seed = 0;
  std::int64_t every = 0;  // steps between evaluations; 0: at the end alone
  std::int64_t hold = 0;   // the step whose checkpoint stays beside the last one; 0: none
  bool shared = false;     // at the rate that all arms share, in place of the arm's own

  std::string name() const;  // NAME-seedS, NAME-shared-seedS
};

// The runs that a part needs, seed by seed, so that a study that is stopped has whole comparisons. How a run
// is made does not depend on the part.
std::vector<PlannedRun> runs_of(const Part& part, const StudyOptions& options);

}  // namespace routeopd::study
