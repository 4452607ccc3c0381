// The laboratory's main study: several arms from the same base, with the same prompts, random numbers, learning rate and
// steps, judged on the same held-out problems and the same frozen states.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/grade/statistics.h"
#include "routeopd/train/recipe.h"

namespace routeopd::lab {

struct StudyOptions {
  std::filesystem::path laboratory;  // with base/, teacher/, train.jsonl, heldout.jsonl
  std::filesystem::path out;
  std::vector<std::string> arms = {"sampled_rkl", "full_rkl", "fixed_mid", "routeopd", "union_rkl"};
  std::vector<std::uint64_t> seeds = {42};
  std::int64_t steps = 30;
  double lr = 5e-5;
  std::int32_t k = 16;
  std::int32_t samples = 16;         // Avg@n
  std::int64_t problems = 0;         // held-out problems; 0: all
  std::int64_t evaluate_every = 10;  // steps between evaluations
  std::int64_t bank_states = 256;
};

// One arm under one seed.
struct ArmRun {
  std::string arm;
  std::uint64_t seed = 0;
  std::vector<std::pair<std::int64_t, double>> path;  // (step, Avg@n), the base at step 0 first
  grade::Correctness correctness;                     // at the end
  double mass_before = 0;                             // on the frozen states of the base student
  double mass_after = 0;
  Json seconds;                 // a step, by stage, median over the run
  std::int64_t peak_bytes = 0;  // of the process while the arm trained, evaluations left out
};

struct Study {
  StudyOptions options;
  double base = 0;     // Avg@n of the untrained student
  double teacher = 0;  // and of the teacher
  std::vector<ArmRun> runs;
};

// What is going on: the arm and seed, the step of how many, and what to show beside it.
using StudyWatch = std::function<void(const std::string& what, std::int64_t done, std::int64_t total,
                                      const std::string& note)>;

Study run_study(const StudyOptions& options, const StudyWatch& watch = {});

// One arm over all seeds, against the first arm.
struct ArmSummary {
  std::string arm;
  double average = 0;
  grade::Interval contrast;      // to the first arm, paired on (seed, problem, sample), over problems
  std::vector<double> per_seed;  // Avg@n
  double mass_before = 0, mass_after = 0;
};
std::vector<ArmSummary> summarize(const Study& study);

std::string study_table(const Study& study);     // for a terminal
std::string study_sentence(const Study& study);  // what the intervals show, and what they do not
Json study_json(const Study& study);

}  // namespace routeopd::lab
