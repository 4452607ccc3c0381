// What a study directory holds, as plain data for tables and figures. Reading is tolerant
// (report/tolerant_files.h): `missing` says, a sentence each, what is not there, is cut or is of another
// type. Names and layout are those of StudyFiles (study_files.h). Paths that a study names stay inside it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/report/run_files.h"
#include "routeopd/study/tuning_results.h"

namespace routeopd::study {

// Longer lists than these belong to no study; with the bounds on files they bound what reading one may cost.
inline constexpr std::size_t kMaxRuns = 4'096;
inline constexpr std::size_t kMaxProbes = 64;
inline constexpr std::size_t kMaxDistanceStates = 1 << 20;
inline constexpr std::size_t kMaxCostEntries = 256;  // of each list of cost.json

// Names of the two that were not trained: the starting student and the teacher.
inline constexpr const char* kBase = "base";
inline constexpr const char* kTeacher = "teacher";
inline constexpr std::array kUntrained = {kBase, kTeacher};

// RUN/distance.jsonl (distances.h), a value per state; empty where there is none.
struct StateDistances {
  std::vector<std::int32_t> sequence;
  std::vector<double> mass, forward_kl, reverse_kl;
};

struct StudyRun {
  std::string name;  // of the variant: "routeopd-k64"
  std::int64_t seed = 0;
  bool complete = false;
  std::optional<double> lr;  // as study.json has it
  report::RunFiles files;
  StateDistances distances;
  report::EvalFiles eval;  // the one that the study counts, with grades and labels
};

struct StudyProbe {
  std::string name, at;
  report::ProbeFiles files;
};

// A line of concentration.jsonl.
struct ProblemConcentration {
  std::string suite, problem;
  std::int64_t states = 0;
  double mass = 0, concentration = 0, budget = 0;
};

struct StudyResults {
  std::filesystem::path directory;
  Json manifest;  // study.json, an object; null where there is none
  std::optional<report::EvalFiles> base, teacher;
  std::optional<StateDistances> base_distances;
  std::vector<StudyRun> runs;         // by seed; each arm at its own learning rate
  std::vector<StudyRun> shared_runs;  // the same at one rate for all, where they were trained so too
  std::optional<Tuning> tuning;
  std::vector<StudyProbe> probes;
  Json cost;  // cost.json; null where there is none
  std::vector<ProblemConcentration> concentration;
  std::vector<std::string> missing;  // of the study itself; runs, evaluations and probes have their own

  // Every run of a variant, by seed.
  std::vector<const StudyRun*> runs_of(const std::string& name) const;
  const report::ProbeFiles* probe(const std::string& name) const;
  // Every evaluation that the study counts.
  std::vector<report::EvalFiles*> evals();
  std::vector<std::string> all_missing() const;
};

// Never throws. Sentences name files relative to the study.
StudyResults read_results(const std::filesystem::path& directory);

}  // namespace routeopd::study
